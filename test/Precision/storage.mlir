// RUN: split-file %s %t
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/storage.yaml | FileCheck %s --check-prefix=ASSIGN
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/storage.yaml --binade-materialize-precision > %t/out.mlir
// RUN: FileCheck %s < %t/out.mlir
// RUN: binade-opt %t/out.mlir --binade-materialize-precision | diff - %t/out.mlir

// A rule for updates specifies the formats of parameters and states; assignment sets them
// on the update and changes no type. A decision without a rule was set by the user.

// ASSIGN-LABEL: func.func @step
// ASSIGN-SAME:    %[[W:[^:]*]]: tensor<4x3xf32> {{{[^}]*}}binade.name = "fc.weight"
// ASSIGN:       binade.optimizer_update @sgd %[[W]], {{.*}}storage = #binade.storage<parameter = bf16, master = split_round, states = bf16, rule = "{{.*}}storage.yaml:5">
// ASSIGN:       binade.optimizer_update {{.*}}storage = #binade.storage<parameter = bf16, master = kahan, rule = "{{.*}}storage.yaml:6">
// ASSIGN:       binade.optimizer_update {{.*}}storage = #binade.storage<states = f16>
// ASSIGN:       binade.optimizer_update {{.*}}storage = #binade.storage<parameter = bf16, master = stochastic, rule = "{{.*}}storage.yaml:7">

// Materialization gives parameters and states their types. The companion of a parameter
// is a state, and starts from the parameter's initial value. Users in bf16 read the
// parameter itself, others a cast of it.

// CHECK-LABEL: func.func @step
// CHECK-SAME:    %[[W:[^:]*]]: tensor<4x3xbf16> {binade.init = dense<1.000000e+00> : tensor<4x3xf32>, binade.name = "fc.weight"
// CHECK-SAME:    %[[B:[^:]*]]: tensor<3xbf16> {{{[^}]*}}binade.name = "fc.bias"
// CHECK-SAME:    %[[N:[^:]*]]: tensor<3xf32> {{{[^}]*}}binade.name = "norm"
// CHECK-SAME:    %[[S:[^:]*]]: tensor<3xbf16> {{{[^}]*}}binade.name = "shift"
// CHECK-SAME:    %[[MW:[^:]*]]: tensor<4x3xbf16> {{{[^}]*}}binade.name = "momentum_buffer/fc.weight"
// CHECK-SAME:    %[[MB:[^:]*]]: tensor<3xf32> {{{[^}]*}}binade.name = "momentum_buffer/fc.bias"
// CHECK-SAME:    %[[MN:[^:]*]]: tensor<3xf16> {{{[^}]*}}binade.name = "momentum_buffer/norm"
// CHECK-SAME:    %[[MS:[^:]*]]: tensor<3xf32> {{{[^}]*}}binade.name = "momentum_buffer/shift"
// CHECK-SAME:    %[[R:[^:]*]]: tensor<4x3xi16> {binade.init = #binade.companion<"fc.weight", split_round>, binade.name = "remainder/fc.weight", binade.role = #binade.role<state>}
// CHECK-SAME:    %[[C:[^:]*]]: tensor<3xbf16> {binade.init = #binade.companion<"fc.bias", kahan>, binade.name = "compensation/fc.bias", binade.role = #binade.role<state>}
// CHECK-SAME:    %[[RNG:[^:]*]]: tensor<2xi64> {binade.name = "rng", binade.role = #binade.role<rng>}
// CHECK-SAME:    -> (tensor<4x3xbf16> {{{[^}]*}}"fc.weight"{{[^}]*}}}, tensor<4x3xbf16> {{{[^}]*}}"momentum_buffer/fc.weight"
// CHECK-SAME:    tensor<2xi64> {binade.name = "rng"
// CHECK-SAME:    tensor<4x3xi16> {binade.name = "remainder/fc.weight"
// CHECK-DAG:     %[[WIDE:.*]] = binade.cast %[[B]] : (tensor<3xbf16>) -> tensor<3xf32>
// CHECK-DAG:     binade.matmul %{{.*}}, %[[W]] {{.*}} : (tensor<2x4xbf16>, tensor<4x3xbf16>)
// CHECK-DAG:     binade.exp %[[WIDE]]
// CHECK:         %[[NEW:.*]], %[[KEPT:.*]]:2 = binade.optimizer_update @sgd %[[W]], %{{.*}} states(%[[MW]], %[[R]]) {{.*}}master = #binade.master<split_round>
// CHECK-SAME:      (tensor<4x3xbf16>, tensor<4x3xf32>, tensor<4x3xbf16>, tensor<4x3xi16>) -> (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<4x3xi16>)
// CHECK:         binade.optimizer_update @sgd %[[B]], %{{.*}} states(%[[MB]], %[[C]]) {{.*}}master = #binade.master<kahan>
// CHECK:         binade.optimizer_update @sgd %[[N]], %{{.*}} states(%[[MN]])
// CHECK-NOT:     master
// CHECK:         %[[STREAM:.*]] = binade.constant {{.*}}dense<-9223372023969873920> : tensor<i64>
// CHECK:         %[[PLACE:.*]] = binade.add %{{.*}}, %[[STREAM]]
// CHECK:         binade.optimizer_update @sgd %[[S]], %{{.*}} states(%[[MS]]) random(%{{.*}}, %[[PLACE]]) {{{.*}}master = #binade.master<stochastic>
// CHECK:         return %[[NEW]], %[[KEPT]]#0, {{.*}}%[[KEPT]]#1

//--- storage.yaml
name: storage
narrow: bf16
wide: f32
rules:
- { match: { op: optimizer_update, role: weight }, parameter: bf16, master: split_round, state: bf16 }
- { match: { op: optimizer_update, name: "*.bias" }, parameter: bf16, master: kahan }
- { match: { name: "shift", phase: optimizer }, parameter: bf16, master: stochastic }
//--- step.mlir
binade.optimizer @sgd {states = [#binade.setting<"momentum_buffer" = 0.0>], hypers = []}
func.func private @sgd.update(%p: f32, %g: f32, %m: f32) -> (f32, f32) { return %g, %m : f32, f32 }

func.func @step(
    %w: tensor<4x3xf32> {binade.role = #binade.role<parameter>, binade.name = "fc.weight", binade.init = dense<1.0> : tensor<4x3xf32>},
    %b: tensor<3xf32> {binade.role = #binade.role<parameter>, binade.name = "fc.bias"},
    %n: tensor<3xf32> {binade.role = #binade.role<parameter>, binade.name = "norm"},
    %s: tensor<3xf32> {binade.role = #binade.role<parameter>, binade.name = "shift"},
    %mw: tensor<4x3xf32> {binade.role = #binade.role<state>, binade.name = "momentum_buffer/fc.weight", binade.init = dense<0.0> : tensor<4x3xf32>},
    %mb: tensor<3xf32> {binade.role = #binade.role<state>, binade.name = "momentum_buffer/fc.bias"},
    %mn: tensor<3xf32> {binade.role = #binade.role<state>, binade.name = "momentum_buffer/norm"},
    %ms: tensor<3xf32> {binade.role = #binade.role<state>, binade.name = "momentum_buffer/shift"},
    %x: tensor<2x4xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<4x3xf32> {binade.role = #binade.role<parameter>, binade.name = "fc.weight"},
        tensor<4x3xf32> {binade.role = #binade.role<state>, binade.name = "momentum_buffer/fc.weight"},
        tensor<3xf32> {binade.role = #binade.role<parameter>, binade.name = "fc.bias"},
        tensor<3xf32> {binade.role = #binade.role<state>, binade.name = "momentum_buffer/fc.bias"},
        tensor<3xf32> {binade.role = #binade.role<parameter>, binade.name = "norm"},
        tensor<3xf32> {binade.role = #binade.role<state>, binade.name = "momentum_buffer/norm"},
        tensor<3xf32> {binade.role = #binade.role<parameter>, binade.name = "shift"},
        tensor<3xf32> {binade.role = #binade.role<state>, binade.name = "momentum_buffer/shift"},
        tensor<2x3xf32>, tensor<3xf32>) {
  %y = binade.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %e = binade.exp %b : (tensor<3xf32>) -> tensor<3xf32>
  %dw = binade.matmul %x, %y {transpose_lhs, binade.phase = #binade.phase<backward>} : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %db = binade.exp %e {binade.phase = #binade.phase<backward>} : (tensor<3xf32>) -> tensor<3xf32>
  %w1:2 = binade.optimizer_update @sgd %w, %dw states(%mw) {binade.phase = #binade.phase<optimizer>} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) loc("fc.weight")
  %b1:2 = binade.optimizer_update @sgd %b, %db states(%mb) {binade.phase = #binade.phase<optimizer>} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) loc("fc.bias")
  %n1:2 = binade.optimizer_update @sgd %n, %db states(%mn) {storage = #binade.storage<states = f16>, binade.phase = #binade.phase<optimizer>} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) loc("norm")
  %s1:2 = binade.optimizer_update @sgd %s, %db states(%ms) {binade.phase = #binade.phase<optimizer>} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) loc("shift")
  return %w1#0, %w1#1, %b1#0, %b1#1, %n1#0, %n1#1, %s1#0, %s1#1, %y, %e : tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>, tensor<3xf32>
}
