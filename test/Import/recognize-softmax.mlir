// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// exp(x - max) / sum between two matmuls is recognized as attention, too.

// CHECK-LABEL: func @attention
// CHECK-NEXT:    binade.attention %arg0, %arg1, %arg2 {scale = 1.000000e+00 : f64}
func.func @attention(%q: tensor<3x4xf32>, %k: tensor<6x4xf32>,
                     %v: tensor<6x4xf32>) -> tensor<3x4xf32> {
  %x = binade.matmul %q, %k {transpose_rhs} : (tensor<3x4xf32>, tensor<6x4xf32>) -> tensor<3x6xf32>
  %m = binade.reduce_max %x {axes = array<i64: 1>} : (tensor<3x6xf32>) -> tensor<3xf32>
  %ms = binade.broadcast %m {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x6xf32>
  %c = binade.sub %x, %ms : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>
  %e = binade.exp %c : (tensor<3x6xf32>) -> tensor<3x6xf32>
  %s = binade.reduce_sum %e {axes = array<i64: 1>} : (tensor<3x6xf32>) -> tensor<3xf32>
  %ss = binade.broadcast %s {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x6xf32>
  %y = binade.div %e, %ss : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>
  %a = binade.matmul %y, %v : (tensor<3x6xf32>, tensor<6x4xf32>) -> tensor<3x4xf32>
  return %a : tensor<3x4xf32>
}

// Sums of a square matrix are broadcast along the other axis: this is not softmax.

// CHECK-LABEL: func @columns
// CHECK-NOT:     softmax
// CHECK:         return
func.func @columns(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %m = binade.reduce_max %x {axes = array<i64: 1>} : (tensor<3x3xf32>) -> tensor<3xf32>
  %ms = binade.broadcast %m {axes = array<i64: 1>} : (tensor<3xf32>) -> tensor<3x3xf32>
  %c = binade.sub %x, %ms : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %e = binade.exp %c : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %s = binade.reduce_sum %e {axes = array<i64: 1>} : (tensor<3x3xf32>) -> tensor<3xf32>
  %ss = binade.broadcast %s {axes = array<i64: 1>} : (tensor<3xf32>) -> tensor<3x3xf32>
  %y = binade.div %e, %ss : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %y : tensor<3x3xf32>
}

// CHECK-LABEL: func @logarithm
// CHECK-NEXT:    binade.log_softmax %arg0
// CHECK-NEXT:    return
func.func @logarithm(%x: tensor<3x6xf32>) -> tensor<3x6xf32> {
  %m = binade.reduce_max %x {axes = array<i64: 1>} : (tensor<3x6xf32>) -> tensor<3xf32>
  %ms = binade.broadcast %m {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x6xf32>
  %c = binade.sub %x, %ms : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>
  %e = binade.exp %c : (tensor<3x6xf32>) -> tensor<3x6xf32>
  %s = binade.reduce_sum %e {axes = array<i64: 1>} : (tensor<3x6xf32>) -> tensor<3xf32>
  %l = binade.log %s : (tensor<3xf32>) -> tensor<3xf32>
  %ls = binade.broadcast %l {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x6xf32>
  %y = binade.sub %c, %ls : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}

// The maximum of column i, subtracted from row i.

// CHECK-LABEL: func @another_axis
// CHECK-NOT:     softmax
// CHECK:         return
func.func @another_axis(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %m = binade.reduce_max %x {axes = array<i64: 0>} : (tensor<3x3xf32>) -> tensor<3xf32>
  %ms = binade.broadcast %m {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x3xf32>
  %c = binade.sub %x, %ms : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %e = binade.exp %c : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %s = binade.reduce_sum %e {axes = array<i64: 1>} : (tensor<3x3xf32>) -> tensor<3xf32>
  %ss = binade.broadcast %s {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x3xf32>
  %y = binade.div %e, %ss : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %y : tensor<3x3xf32>
}
