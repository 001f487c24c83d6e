// RUN: split-file %s %t
// RUN: binade-opt %t/gradient.mlir --binade-append-optimizer='optimizer=%t/plain.mlir settings=lr=0.5' | FileCheck %s

// An optimizer is one file: without states the step has none.

// CHECK:       binade.optimizer @plain
// CHECK-LABEL: func.func @step(
// CHECK-NOT:   binade.role<state>
// CHECK-SAME:  {binade.init = dense<5.000000e-01> : tensor<f64>, binade.name = "lr"
// CHECK-SAME:  -> (
// CHECK-NOT:   binade.role<state>
// CHECK:       binade.optimizer_update @plain %{{.*}}, %{{.*}} scalars(%{{.*}}) factors

//--- gradient.mlir
func.func @gradient(%w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<2xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %loss, %w : tensor<f32>, tensor<2xf32>
}

//--- plain.mlir
binade.optimizer @plain {states = [], hypers = [#binade.setting<"lr" = 0.1 min 0.0>]}
func.func private @plain.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @plain.update(%p: f32, %g: f32, %lr: f32) -> f32 {
  %d = arith.mulf %lr, %g : f32
  %new = arith.subf %p, %d : f32
  return %new : f32
}
