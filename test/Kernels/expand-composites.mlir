// RUN: binade-opt %s --binade-expand-composites | FileCheck %s

// Attention expands to two matmuls in the library and a softmax kernel between them.
// Its parts keep its phase and, as their types say, its formats. The exponential of the
// backward pass, from which only bf16 results follow, needs no more accuracy than these.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     binade.attention
// CHECK:         %[[SCORES:.*]] = binade.matmul %arg0, %arg1 {transpose_rhs} : (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>) -> tensor<2x4x4xf32>
// CHECK:         %[[SCALED:.*]] = binade.mul %[[SCORES]]
// CHECK:         binade.iota {axis = 1 : i64} : tensor<2x4x4xi32>
// CHECK:         binade.iota {axis = 2 : i64} : tensor<2x4x4xi32>
// CHECK:         binade.compare {{.*}} {comparison = #binade.comparison<less_equal>}
// CHECK:         %[[VISIBLE:.*]] = binade.select {{.*}}, %[[SCALED]],
// CHECK:         %[[MAX:.*]] = binade.reduce_max %[[VISIBLE]] {axes = array<i64: 2>}
// CHECK:         %[[E:.*]] = binade.exp %{{[^{]*}} : (tensor<2x4x4xf32>)
// CHECK:         %[[TOTAL:.*]] = binade.reduce_sum %[[E]]
// CHECK:         %[[P:.*]] = binade.mul %[[E]],
// CHECK:         %[[LOG:.*]] = binade.log %[[TOTAL]]
// CHECK:         %[[LSE:.*]] = binade.add %[[MAX]], %[[LOG]]
// CHECK:         %[[NARROW:.*]] = binade.cast %[[P]] {{.*}} -> tensor<2x4x4xbf16>
// CHECK:         %[[Y:.*]] = binade.matmul %[[NARROW]], %arg2 : (tensor<2x4x4xbf16>, tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>

// CHECK:         binade.matmul {{.*}} {binade.phase = #binade.phase<backward>, transpose_rhs}
// CHECK:         %[[PB:.*]] = binade.exp {{.*}} {binade.accuracy = bf16, binade.phase = #binade.phase<backward>}
// CHECK:         %[[DV:.*]] = binade.matmul {{.*}}, %[[Y]] {binade.phase = #binade.phase<backward>, transpose_lhs}
// CHECK:         %[[DP:.*]] = binade.matmul %[[Y]], %arg2 {binade.phase = #binade.phase<backward>, transpose_rhs}
// CHECK:         %[[DQ:.*]] = binade.matmul %[[DS:.*]], %arg1
// CHECK:         %[[DK:.*]] = binade.matmul %[[DS]], %arg0 {binade.phase = #binade.phase<backward>, transpose_lhs}
// CHECK:         return %[[DQ]], %[[DK]], %[[DV]]
func.func @step(%q: tensor<2x4x8xbf16>, %k: tensor<2x4x8xbf16>, %v: tensor<2x4x6xbf16>)
    -> (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>, tensor<2x4x6xbf16>) {
  %y, %lse = binade.attention %q, %k, %v {scale = 0.5 : f64, causal}
    : (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>, tensor<2x4x6xbf16>) -> (tensor<2x4x6xbf16>, tensor<2x4xf32>)
  %dq, %dk, %dv = binade.attention_grad %y, %q, %k, %v, %y, %lse
      {scale = 0.5 : f64, causal, binade.phase = #binade.phase<backward>}
    : (tensor<2x4x6xbf16>, tensor<2x4x8xbf16>, tensor<2x4x8xbf16>, tensor<2x4x6xbf16>, tensor<2x4x6xbf16>,
       tensor<2x4xf32>) -> (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>, tensor<2x4x6xbf16>)
  return %dq, %dk, %dv : tensor<2x4x8xbf16>, tensor<2x4x8xbf16>, tensor<2x4x6xbf16>
}
