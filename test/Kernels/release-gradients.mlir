// RUN: binade-opt %s --split-input-file --binade-release-gradients --binade-form-kernels | FileCheck %s

// Each parameter is updated in a launch of its own, after the last op that reads it: %a is
// read by the matmul that continues the backward pass. The sums of squares are combined.

// CHECK-LABEL: func.func @step
// CHECK-SAME:      (%[[A:[^:]*]]: tensor<64x64xf32>
// CHECK:         %[[DB:.*]] = binade.matmul
// CHECK:         %[[SB:.*]]:2 = binade.launch [@gradient_statistics_{{[0-9]+}}](%[[DB]])
// CHECK:         %[[B:.*]] = binade.launch [@optimizer_update_{{[0-9]+}}](%{{.*}}, %[[DB]])
// CHECK:         %[[DA:.*]] = binade.matmul
// CHECK:         %[[SA:.*]]:2 = binade.launch [@gradient_statistics_{{[0-9]+}}](%[[DA]])
// CHECK-NOT:     optimizer_update
// CHECK:         %[[SUM:.*]] = binade.launch [@add_{{[0-9]+}}](%[[SB]]#0, %[[SA]]#0)
// CHECK-NOT:     optimizer_update
// CHECK:         binade.matmul %[[DA]], %[[A]]
// CHECK:         %[[NEW:.*]] = binade.launch [@optimizer_update_{{[0-9]+}}](%[[A]], %[[DA]])
// CHECK:         return %[[NEW]], %[[B]], %[[SUM]]
// CHECK-NOT:     binade.release
binade.optimizer @descent {states = [], hypers = []}
func.func private @descent.scalars(%step: i64) {
  return
}
func.func private @descent.update(%p: f32, %g: f32) -> f32 {
  %q = arith.subf %p, %g : f32
  return %q : f32
}
func.func @step(
    %a: tensor<64x64xf32> {binade.name = "a", binade.role = #binade.role<parameter>},
    %b: tensor<64x64xf32> {binade.name = "b", binade.role = #binade.role<parameter>},
    %x: tensor<64x64xf32> {binade.name = "x", binade.role = #binade.role<batch>},
    %y: tensor<64x64xf32> {binade.name = "y", binade.role = #binade.role<batch>})
    -> (tensor<64x64xf32> {binade.name = "a", binade.role = #binade.role<parameter>},
        tensor<64x64xf32> {binade.name = "b", binade.role = #binade.role<parameter>},
        tensor<f64> {binade.name = "squares", binade.role = #binade.role<metric>},
        tensor<64x64xf32> {binade.name = "dx", binade.role = #binade.role<output>}) {
  %db = binade.matmul %x, %x {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %da = binade.matmul %x, %y {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %dx = binade.matmul %da, %a {transpose_rhs, binade.phase = #binade.phase<backward>}
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %squares, %found = binade.gradient_statistics %da, %db
    {binade.phase = #binade.phase<optimizer>}
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> (tensor<f64>, tensor<i1>)
  %p = binade.optimizer_update @descent %a, %da {binade.phase = #binade.phase<optimizer>}
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %q = binade.optimizer_update @descent %b, %db {binade.phase = #binade.phase<optimizer>}
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %p, %q, %squares, %dx
    : tensor<64x64xf32>, tensor<64x64xf32>, tensor<f64>, tensor<64x64xf32>
}
