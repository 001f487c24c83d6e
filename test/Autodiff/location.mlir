// RUN: binade-opt %s --binade-build-gradient --mlir-print-debuginfo | FileCheck %s

// An adjoint carries the node name of the op that it differentiates.

// CHECK: %[[SEED:.*]] = binade.gradient_seed {{.*}} loc(#[[SUM:.*]])
// CHECK: %[[SPREAD:.*]] = binade.broadcast {{.*}} loc(#[[SUM]])
// CHECK: binade.mul %[[SPREAD]], {{.*}} loc(#[[ACT:.*]])
// CHECK-DAG: #[[SUM]] = loc("total"
// CHECK-DAG: #[[ACT]] = loc("activation"
func.func @forward(%w: tensor<8xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.exp %w : (tensor<8xf32>) -> tensor<8xf32> loc("activation")
  %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32> loc("total")
  return %loss : tensor<f32>
}
