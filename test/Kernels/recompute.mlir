// RUN: binade-opt %s --binade-recompute | FileCheck %s

// The gelu is run again, through the view, before the first op that reads it; its
// operand, which the backward part has anyway, is what is kept. A product is not
// run again, nor is an op whose operand would have to be kept for it.

// CHECK-LABEL: func.func @step
// CHECK:         %[[H:.*]] = binade.matmul %arg0, %arg1
// CHECK:         %[[SH:.*]] = binade.save %[[H]]
// CHECK:         %[[G:.*]] = binade.gelu %[[H]]
// CHECK-NOT:     binade.save
// CHECK:         %[[R:.*]] = binade.reshape %[[G]]
// CHECK:         %[[E:.*]] = binade.exp %[[R]]
// CHECK:         %[[T:.*]] = binade.tanh %[[E]]
// CHECK:         %[[ST:.*]] = binade.save %[[T]]
// CHECK:         %[[DG:.*]] = binade.gelu_grad %{{.*}}, %[[SH]] {binade.phase = #binade.phase<backward>}
// CHECK:         %[[G2:.*]] = binade.gelu %[[SH]] {binade.phase = #binade.phase<backward>}
// CHECK:         %[[R2:.*]] = binade.reshape %[[G2]] {binade.phase = #binade.phase<backward>}
// CHECK:         %[[M:.*]] = binade.mul %[[R2]], %[[ST]]
// CHECK:         return %[[T]], %[[DG]], %[[M]]
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>)
    -> (tensor<24xf32>, tensor<4x6xf32>, tensor<24xf32>) {
  %h = binade.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %sh = binade.save %h : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %g = binade.gelu %h : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %r = binade.reshape %g : (tensor<4x6xf32>) -> tensor<24xf32>
  %sr = binade.save %r : (tensor<24xf32>) -> tensor<24xf32>
  %e = binade.exp %r : (tensor<24xf32>) -> tensor<24xf32>
  %t = binade.tanh %e : (tensor<24xf32>) -> tensor<24xf32>
  %st = binade.save %t : (tensor<24xf32>) -> tensor<24xf32>
  %dg = binade.gelu_grad %sh, %sh {binade.phase = #binade.phase<backward>}
    : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %m = binade.mul %sr, %st {binade.phase = #binade.phase<backward>}
    : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  return %t, %dg, %m : tensor<24xf32>, tensor<4x6xf32>, tensor<24xf32>
}
