// RUN: binade-opt %s --split-input-file --binade-programs-pipeline="batches=4 in-momentum" | FileCheck %s
// RUN: not binade-opt %s --split-input-file --binade-accumulate-in-momentum=batches=0 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: expected at least one batch per step, got 0

// The first batch updates the mean with its decay, the others are added to the result. Once
// a gradient is not finite, the rest of the step's batches are not accumulated.

// CHECK-LABEL: func.func private @mean.add.scalars(
// CHECK-SAME:      %[[B:[a-z0-9]*]]: f64, %[[FIRST:[a-z0-9]*]]: f64)
// CHECK:         return %{{.*}}, %{{.*}}, %[[FIRST]] : f64, f64, f64

// CHECK-LABEL: func.func private @mean.finish.update(
// CHECK-SAME:      %[[P:[a-z0-9]*]]: f32, %[[G:[a-z0-9]*]]: f32, %[[M:[a-z0-9]*]]: f32, %[[A:[a-z0-9]*]]: f32, %[[W:[a-z0-9]*]]: f32, %[[FIRST:[a-z0-9]*]]: f32)
// CHECK:         %[[KEPT:.*]] = arith.mulf %[[A]], %[[M]]
// CHECK:         %[[OWN:.*]] = arith.mulf %[[G]], %[[W]]
// CHECK:         %[[BEGUN:.*]] = arith.subf %[[KEPT]], %[[OWN]]
// CHECK:         %[[BEGINS:.*]] = arith.cmpf one, %[[FIRST]], %{{.*}}
// CHECK:         %[[MORE:.*]] = arith.mulf %[[W]], %[[G]]
// CHECK:         %[[LESS:.*]] = arith.negf %[[MORE]]
// CHECK:         %[[ADDED:.*]] = arith.addf %[[M]], %[[LESS]]
// CHECK:         %[[NEW:.*]] = arith.select %[[BEGINS]], %[[BEGUN]], %[[ADDED]]
// CHECK:         %[[Q:.*]] = arith.addf %[[P]], %[[NEW]]
// CHECK:         return %[[Q]], %[[NEW]]

// CHECK-LABEL: func.func private @mean.add.update(
// CHECK-SAME:      %[[P:[a-z0-9]*]]: f32,
// CHECK:         return %[[P]], %{{.*}} : f32, f32

// CHECK-LABEL: func.func @step
// CHECK-SAME:      %[[COUNT:[a-z0-9]*]]: tensor<f64> {binade.init = dense<0.000000e+00> : tensor<f64>, binade.name = "batches", binade.role = #binade.role<accumulator>}
// CHECK-SAME:      %[[BAD:[a-z0-9]*]]: tensor<i1> {binade.init = dense<false> : tensor<i1>, binade.name = "found_inf", binade.role = #binade.role<accumulator>}
// CHECK:         %[[ANY:.*]] = binade.min %[[COUNT]], %[[ONE:.*]] {
// CHECK:         %[[FIRST:.*]] = binade.sub %[[ONE]], %[[ANY]]
// CHECK:         %{{.*}}, %[[OWN:.*]] = binade.gradient_statistics
// CHECK-NEXT:    %[[INF:.*]] = binade.select %[[BAD]], %[[BAD]], %[[OWN]]
// CHECK:         binade.unscale_factor {batches = 4 : i64
// CHECK:         %[[K:.*]]:3 = binade.optimizer_scalars @mean.finish(%{{.*}}, %{{.*}}, %[[FIRST]])
// CHECK:         binade.optimizer_update @mean.finish %{{.*}} scalars(%[[K]]#0, %[[K]]#1, %[[K]]#2) factors(%{{.*}}) skip(%[[INF]])

// CHECK-LABEL: func.func @accumulate
// CHECK-SAME:      -> (tensor<f64> {binade.name = "batches", binade.role = #binade.role<accumulator>}, tensor<i1> {binade.name = "found_inf", binade.role = #binade.role<accumulator>}, tensor<2xf32> {binade.name = "m/w", binade.role = #binade.role<state>}, tensor<f32> {binade.name = "batch_loss", binade.role = #binade.role<metric>})
// CHECK-SAME:      attributes {binade.batches = 4 : i64}
// CHECK:         binade.optimizer_update @mean.add
binade.optimizer @mean {
  states = [#binade.setting<"m" = 0.0>], hypers = [#binade.setting<"b" = 0.5>]}
func.func private @mean.scalars(%step: i64, %b: f64) -> (f64, f64) {
  return %b, %b : f64, f64
}
func.func private @mean.update(%p: f32, %g: f32, %m: f32, %a: f32, %w: f32) -> (f32, f32) {
  %kept = arith.mulf %a, %m : f32
  %own = arith.mulf %g, %w : f32
  %new = arith.subf %kept, %own : f32
  %q = arith.addf %p, %new : f32
  return %q, %new : f32, f32
}
func.func @step(
    %w: tensor<2xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
    %m: tensor<2xf32> {binade.role = #binade.role<state>, binade.name = "m/w"},
    %step: tensor<i64> {binade.role = #binade.role<step>, binade.name = "step"},
    %b: tensor<f64> {binade.role = #binade.role<hyper>, binade.name = "b", binade.init = dense<0.5> : tensor<f64>},
    %x: tensor<2xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"},
        tensor<2xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
        tensor<2xf32> {binade.role = #binade.role<state>, binade.name = "m/w"}) {
  %loss = binade.reduce_mean %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %g = binade.mul %x, %x {binade.phase = #binade.phase<backward>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %squares, %inf = binade.gradient_statistics %g {binade.phase = #binade.phase<optimizer>} : (tensor<2xf32>) -> (tensor<f64>, tensor<i1>)
  %factor = binade.unscale_factor {binade.phase = #binade.phase<optimizer>} : () -> tensor<f32>
  %k:2 = binade.optimizer_scalars @mean(%step, %b) {binade.phase = #binade.phase<optimizer>} : (tensor<i64>, tensor<f64>) -> (tensor<f32>, tensor<f32>)
  %new:2 = binade.optimizer_update @mean %w, %g states(%m) scalars(%k#0, %k#1) factors(%factor) skip(%inf)
      {binade.phase = #binade.phase<optimizer>}
      : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>)
  return %loss, %new#0, %new#1 : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// A rule without scalars gets a scalar that tells whether the batch is the first of the step.

// CHECK-LABEL: func.func private @plain.finish.update(
// CHECK-SAME:      %{{[^:]*}}: f32, %{{[^:]*}}: f32, %{{[^:]*}}: f32, %{{[^:]*}}: f32) -> (f32, f32)
// CHECK-LABEL: func.func @step(
// CHECK:         %[[ONE:.*]] = binade.constant {{.*}}dense<1.000000e+00> : tensor<f64>
// CHECK:         %[[SOME:.*]] = binade.min %{{.*}}, %[[ONE]]
// CHECK:         %[[FIRST:.*]] = binade.sub %[[ONE]], %[[SOME]]
// CHECK:         %[[FLAG:.*]] = binade.cast %[[FIRST]] {binade.phase = #binade.phase<optimizer>} : (tensor<f64>) -> tensor<f32>
// CHECK-NOT:     binade.optimizer_scalars
// CHECK:         binade.optimizer_update @plain.finish %{{.*}} states(%{{.*}}) scalars(%[[FLAG]])
// CHECK-LABEL: func.func @accumulate(
// CHECK:         %[[FLAG:.*]] = binade.cast
// CHECK-NOT:     binade.optimizer_scalars
// CHECK:         binade.optimizer_update @plain.add %{{.*}} states(%{{.*}}) scalars(%[[FLAG]])
binade.optimizer @plain {states = [#binade.setting<"m" = 0.0>], hypers = []}
func.func private @plain.scalars(%step: i64) {
  return
}
func.func private @plain.update(%p: f32, %g: f32, %m: f32) -> (f32, f32) {
  %half = arith.constant 0.5 : f32
  %kept = arith.mulf %half, %m : f32
  %new = arith.addf %kept, %g : f32
  %q = arith.subf %p, %new : f32
  return %q, %new : f32, f32
}
func.func @step(
    %w: tensor<2xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
    %m: tensor<2xf32> {binade.role = #binade.role<state>, binade.name = "m/w"},
    %step: tensor<i64> {binade.role = #binade.role<step>, binade.name = "step"},
    %x: tensor<2xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<2xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
        tensor<2xf32> {binade.role = #binade.role<state>, binade.name = "m/w"}) {
  %g = binade.mul %x, %x {binade.phase = #binade.phase<backward>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  binade.optimizer_scalars @plain(%step) {binade.phase = #binade.phase<optimizer>} : (tensor<i64>) -> ()
  %factor = binade.unscale_factor {binade.phase = #binade.phase<optimizer>} : () -> tensor<f32>
  %new:2 = binade.optimizer_update @plain %w, %g states(%m) factors(%factor) {binade.phase = #binade.phase<optimizer>}
    : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %new#0, %new#1 : tensor<2xf32>, tensor<2xf32>
}
