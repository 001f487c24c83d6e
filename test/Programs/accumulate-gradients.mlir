// RUN: binade-opt %s --split-input-file --binade-programs-pipeline=batches=4 | FileCheck %s
// RUN: binade-opt %s --split-input-file --binade-programs-pipeline | FileCheck %s --check-prefix=ONE
// RUN: not binade-opt %s --split-input-file --binade-programs-pipeline=batches=0 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ERROR

// ONE-NOT: @accumulate
// ERROR: error: expected at least one batch per step, got 0

// `step` adds its gradient to the sum before it measures and updates; `accumulate` only
// adds. Sums are stored in the format of the update's decision.

// CHECK-LABEL: func.func @step
// CHECK-SAME:      %[[SUM:[a-z0-9]*]]: tensor<2xbf16> {binade.init = dense<0.000000e+00> : tensor<2xbf16>, binade.name = "w", binade.role = #binade.role<accumulator>}
// CHECK-SAME:      -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}, tensor<2xf32> {binade.name = "w", binade.role = #binade.role<gradient>}
// CHECK:         %[[G:.*]] = binade.mul
// CHECK-NEXT:    %[[BEFORE:.*]] = binade.cast %[[SUM]] {binade.phase = #binade.phase<backward>} : (tensor<2xbf16>) -> tensor<2xf32>
// CHECK-NEXT:    %[[OWN:.*]] = binade.cast %[[G]] {binade.phase = #binade.phase<backward>} : (tensor<2xf16>) -> tensor<2xf32>
// CHECK-NEXT:    %[[ALL:.*]] = binade.add %[[BEFORE]], %[[OWN]] {binade.phase = #binade.phase<backward>}
// CHECK:         binade.gradient_statistics %[[ALL]]
// CHECK:         binade.unscale_factor {batches = 4 : i64, binade.phase
// CHECK:         %[[NEW:.*]] = binade.optimizer_update @plain %{{.*}}, %[[ALL]]
// CHECK:         return %{{.*}}, %[[ALL]], %[[NEW]]

// CHECK-LABEL: func.func @accumulate
// CHECK-SAME:      %[[W:[a-z0-9]*]]: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>}
// CHECK-SAME:      %[[SUM:[a-z0-9]*]]: tensor<2xbf16> {binade.name = "w", binade.role = #binade.role<accumulator>}
// CHECK-SAME:      -> (tensor<2xbf16> {binade.name = "w", binade.role = #binade.role<accumulator>}, tensor<f32> {binade.name = "batch_loss", binade.role = #binade.role<metric>})
// CHECK-SAME:      attributes {binade.batches = 4 : i64}
// CHECK-NOT:     optimizer
// CHECK-NOT:     gradient_statistics
// CHECK:         %[[ALL:.*]] = binade.add
// CHECK:         %[[KEPT:.*]] = binade.cast %[[ALL]] {{.*}} : (tensor<2xf32>) -> tensor<2xbf16>
// CHECK:         return %[[KEPT]], %{{.*}} : tensor<2xbf16>, tensor<f32>
// CHECK-LABEL: func.func @evaluate
binade.optimizer @plain {states = [], hypers = []}
func.func private @plain.scalars(%step: i64) {
  return
}
func.func private @plain.update(%p: f32, %g: f32) -> f32 {
  %q = arith.subf %p, %g : f32
  return %q : f32
}
func.func @step(
    %w: tensor<2xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
    %x: tensor<2xf16> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"},
        tensor<2xf16> {binade.role = #binade.role<gradient>, binade.name = "w"},
        tensor<2xf32> {binade.role = #binade.role<parameter>, binade.name = "w"}) {
  %loss = binade.reduce_mean %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %g = binade.mul %x, %x {binade.phase = #binade.phase<backward>} : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xf16>
  %squares, %inf = binade.gradient_statistics %g {binade.phase = #binade.phase<optimizer>} : (tensor<2xf16>) -> (tensor<f64>, tensor<i1>)
  %factor = binade.unscale_factor {binade.phase = #binade.phase<optimizer>} : () -> tensor<f32>
  %new = binade.optimizer_update @plain %w, %g factors(%factor) skip(%inf)
      {binade.phase = #binade.phase<optimizer>, storage = #binade.storage<accumulator = bf16, rule = "p.yaml:3">}
      : (tensor<2xf32>, tensor<2xf16>, tensor<f32>, tensor<i1>) -> tensor<2xf32>
  return %loss, %g, %new : tensor<f32>, tensor<2xf16>, tensor<2xf32>
}

// -----

// Each batch updates the running statistics and the random generator.

// CHECK-LABEL: func.func @accumulate
// CHECK-SAME:      -> (tensor<2xi64> {binade.name = "rng", binade.role = #binade.role<rng>},
// CHECK-SAME:          tensor<f32> {binade.name = "batch_loss", binade.role = #binade.role<metric>})
func.func @step(
    %rng: tensor<2xi64> {binade.role = #binade.role<rng>, binade.name = "rng"},
    %x: tensor<2xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"},
        tensor<2xi64> {binade.role = #binade.role<rng>, binade.name = "rng"}) {
  %one = binade.constant dense<[0, 1]> : tensor<2xi64>
  %next = binade.add %rng, %one : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %loss = binade.reduce_mean %x {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %loss, %next : tensor<f32>, tensor<2xi64>
}
