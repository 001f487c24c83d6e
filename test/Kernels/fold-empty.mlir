// RUN: binade-opt %s --binade-fold-empty | FileCheck %s
// RUN: binade-opt %s --binade-fold-empty | not grep 'binade.slice\|tensor<0x\|[0-9]x0x'

// The gradient of an empty tensor is empty; a sum over it is 0, and the op that
// reads the sum keeps its phase.
// CHECK-LABEL: @sums
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-DAG: %[[ZERO:.*]] = binade.constant dense<0.000000e+00> : tensor<3xf32>
// CHECK-DAG: %[[LEAST:.*]] = binade.constant dense<0xFF800000> : tensor<3xf32>
// CHECK: return %[[ZERO]], %[[LEAST]], %[[X]]
func.func @sums(%x: tensor<2x3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) {
  %e = binade.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %t = binade.tanh %e : (tensor<0x3xf32>) -> tensor<0x3xf32>
  %s = binade.reduce_sum %t {axes = array<i64: 0>}
    : (tensor<0x3xf32>) -> tensor<3xf32>
  %m = binade.reduce_max %t {axes = array<i64: 0>}
    : (tensor<0x3xf32>) -> tensor<3xf32>
  %c = binade.concat %x, %t {axis = 0 : i64}
    : (tensor<2x3xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
  return %s, %m, %c : tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>
}

// A mean over an empty axis is 0 / 0.
// CHECK-LABEL: @mean
// CHECK: binade.div {{.*}} {binade.phase = #binade.phase<backward>}
func.func @mean(%x: tensor<4xf32>) -> tensor<f32> {
  %e = binade.slice %x {offsets = array<i64: 4>, strides = array<i64: 1>}
    : (tensor<4xf32>) -> tensor<0xf32>
  %y = binade.reduce_mean %e
    {axes = array<i64: 0>, binade.phase = #binade.phase<backward>}
    : (tensor<0xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// A matmul over an empty axis is its bias.
// CHECK-LABEL: @product
// CHECK-SAME: %[[B:[a-z0-9]*]]: tensor<5xf32>
// CHECK: %[[Y:.*]] = binade.broadcast %[[B]] {axes = array<i64: 1>}
// CHECK: return %[[Y]]
func.func @product(%x: tensor<4x2xf32>, %w: tensor<2x5xf32>, %b: tensor<5xf32>)
    -> tensor<4x5xf32> {
  %l = binade.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<4x2xf32>) -> tensor<4x0xf32>
  %r = binade.slice %w {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<2x5xf32>) -> tensor<0x5xf32>
  %y = binade.matmul %l, %r, %b
    : (tensor<4x0xf32>, tensor<0x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// Sums without elements are removed from a tile.
// CHECK-LABEL: @tile
// CHECK: binade.tile 4 slices 1 joins 1
// CHECK: binade.yield %{{[0-9a-z]+}} : tensor<2x6xf32>
func.func @tile(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %r:2 = binade.tile 4 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<2x6xf32>):
    %e = binade.slice %piece {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
      : (tensor<2x6xf32>) -> tensor<2x0xf32>
    %y = binade.neg %piece : (tensor<2x6xf32>) -> tensor<2x6xf32>
    %s = binade.matmul %e, %y {transpose_lhs}
      : (tensor<2x0xf32>, tensor<2x6xf32>) -> tensor<0x6xf32>
    binade.yield %y, %s : tensor<2x6xf32>, tensor<0x6xf32>
  } : (tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<0x6xf32>)
  return %r#0 : tensor<8x6xf32>
}
