// RUN: split-file %s %t
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/states.yaml --binade-materialize-precision | FileCheck %s

// Of shards, the size of the whole parameter decides about the formats of states, groups lie
// within rows, and random numbers are those of the whole parameter.

// CHECK-LABEL: func.func @step
// Three rows of six: 3072 elements of 6144. Groups of 256 divide a row.
// CHECK-SAME:    tensor<3x1024xi8> {{{[^}]*}}binade.name = "m/part"
// A row of 96 elements has groups of 32.
// CHECK-SAME:    tensor<64x96xi8> {{{[^}]*}}binade.name = "m/narrow"
// No group of 16 or more divides a row of 24. A shard is not quantized; a whole parameter is.
// CHECK-SAME:    tensor<256x24xf32> {{{[^}]*}}binade.name = "m/odd"
// CHECK-SAME:    tensor<256x24xi8> {{{[^}]*}}binade.name = "m/whole"
// CHECK-SAME:    tensor<12xf32> {{{[^}]*}}binade.name = "m/part.scale"
// CHECK-SAME:    tensor<192xf32> {{{[^}]*}}binade.name = "m/narrow.scale"
// CHECK-SAME:    tensor<24xf32> {{{[^}]*}}binade.name = "m/whole.scale"
// The part begins with the fourth row, the others with the first.
// CHECK:         %[[FIRST:.*]] = binade.constant {{.*}}dense<3072> : tensor<i64>
// CHECK:         binade.optimizer_update {{.*}}random(%{{[^,]*}}, %{{[^,]*}}, %[[FIRST]])
// CHECK:         binade.optimizer_update {{.*}}random(%{{[^,]*}}, %{{[^,)]*}})
// CHECK:         binade.optimizer_update @sgd %{{[^,]*}}, %{{[^,]*}} states(%{{[^,]*}}) {
// CHECK:         binade.optimizer_update {{.*}}random(%{{[^,]*}}, %{{[^,)]*}})

//--- states.yaml
name: states
narrow: f32
wide: f32
rules:
- { match: { op: optimizer_update }, state: "dyn8:stochastic" }
//--- step.mlir
binade.optimizer @sgd {states = [#binade.setting<"m" = 0.0>], hypers = []}
func.func private @sgd.update(%p: f32, %g: f32, %m: f32) -> (f32, f32) { return %g, %m : f32, f32 }

func.func @step(
    %a: tensor<3x1024xf32> {binade.role = #binade.role<parameter>, binade.name = "part", binade.shard = array<i64: 3, 6>},
    %b: tensor<64x96xf32> {binade.role = #binade.role<parameter>, binade.name = "narrow", binade.row_groups},
    %c: tensor<256x24xf32> {binade.role = #binade.role<parameter>, binade.name = "odd", binade.shard = array<i64: 0, 256>},
    %d: tensor<256x24xf32> {binade.role = #binade.role<parameter>, binade.name = "whole", binade.row_groups},
    %ma: tensor<3x1024xf32> {binade.role = #binade.role<state>, binade.name = "m/part", binade.init = dense<0.0> : tensor<3x1024xf32>},
    %mb: tensor<64x96xf32> {binade.role = #binade.role<state>, binade.name = "m/narrow", binade.init = dense<0.0> : tensor<64x96xf32>},
    %mc: tensor<256x24xf32> {binade.role = #binade.role<state>, binade.name = "m/odd", binade.init = dense<0.0> : tensor<256x24xf32>},
    %md: tensor<256x24xf32> {binade.role = #binade.role<state>, binade.name = "m/whole", binade.init = dense<0.0> : tensor<256x24xf32>})
    -> (tensor<3x1024xf32> {binade.role = #binade.role<parameter>, binade.name = "part"},
        tensor<3x1024xf32> {binade.role = #binade.role<state>, binade.name = "m/part"},
        tensor<64x96xf32> {binade.role = #binade.role<parameter>, binade.name = "narrow"},
        tensor<64x96xf32> {binade.role = #binade.role<state>, binade.name = "m/narrow"},
        tensor<256x24xf32> {binade.role = #binade.role<parameter>, binade.name = "odd"},
        tensor<256x24xf32> {binade.role = #binade.role<state>, binade.name = "m/odd"},
        tensor<256x24xf32> {binade.role = #binade.role<parameter>, binade.name = "whole"},
        tensor<256x24xf32> {binade.role = #binade.role<state>, binade.name = "m/whole"}) {
  %a1:2 = binade.optimizer_update @sgd %a, %a states(%ma) {binade.phase = #binade.phase<optimizer>} : (tensor<3x1024xf32>, tensor<3x1024xf32>, tensor<3x1024xf32>) -> (tensor<3x1024xf32>, tensor<3x1024xf32>) loc("part")
  %b1:2 = binade.optimizer_update @sgd %b, %b states(%mb) {binade.phase = #binade.phase<optimizer>} : (tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>) loc("narrow")
  %c1:2 = binade.optimizer_update @sgd %c, %c states(%mc) {binade.phase = #binade.phase<optimizer>} : (tensor<256x24xf32>, tensor<256x24xf32>, tensor<256x24xf32>) -> (tensor<256x24xf32>, tensor<256x24xf32>) loc("odd")
  %d1:2 = binade.optimizer_update @sgd %d, %d states(%md) {binade.phase = #binade.phase<optimizer>} : (tensor<256x24xf32>, tensor<256x24xf32>, tensor<256x24xf32>) -> (tensor<256x24xf32>, tensor<256x24xf32>) loc("whole")
  return %a1#0, %a1#1, %b1#0, %b1#1, %c1#0, %c1#1, %d1#0, %d1#1 : tensor<3x1024xf32>, tensor<3x1024xf32>, tensor<64x96xf32>, tensor<64x96xf32>, tensor<256x24xf32>, tensor<256x24xf32>, tensor<256x24xf32>, tensor<256x24xf32>
}
