// RUN: binade-opt %s --canonicalize --split-input-file | FileCheck %s

// Folding moves elements at compile time; it computes nothing and rounds nothing.

// CHECK-LABEL: func.func @movement_that_moves_nothing
func.func @movement_that_moves_nothing(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: return %arg0
  %0 = binade.reshape %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = binade.transpose %0 {permutation = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = binade.slice %2 {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = binade.cast %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// -----

// The shapes are equal, but the transpose moves elements.
// CHECK-LABEL: func.func @square_transpose
func.func @square_transpose(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: binade.transpose
  %0 = binade.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func.func @reshape_of_reshape
func.func @reshape_of_reshape(%x: tensor<4x8xf32>) -> tensor<2x16xf32> {
  // CHECK-NEXT: %[[Y:.*]] = binade.reshape %arg0 : (tensor<4x8xf32>) -> tensor<2x16xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = binade.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
  %1 = binade.reshape %0 : (tensor<32xf32>) -> tensor<2x16xf32>
  return %1 : tensor<2x16xf32>
}

// -----

// A reshape with a precision decision is not folded into another.
// CHECK-LABEL: func.func @decided_reshape
func.func @decided_reshape(%x: tensor<4x8xf32>) -> tensor<2x16xf32> {
  // CHECK: binade.reshape %arg0 {precision
  // CHECK: binade.reshape
  %0 = binade.reshape %x {precision = #binade.precision<compute = bf16, result = bf16>}
    : (tensor<4x8xf32>) -> tensor<32xf32>
  %1 = binade.reshape %0 : (tensor<32xf32>) -> tensor<2x16xf32>
  return %1 : tensor<2x16xf32>
}

// -----

// CHECK-LABEL: func.func @one_value_everywhere
func.func @one_value_everywhere() -> tensor<8x4xf32> {
  // CHECK-NEXT: %[[C:.*]] = binade.constant dense<3.000000e+00> : tensor<8x4xf32>
  // CHECK-NEXT: return %[[C]]
  %0 = binade.constant dense<3.0> : tensor<f32>
  %1 = binade.broadcast %0 {axes = array<i64>} : (tensor<f32>) -> tensor<16x4xf32>
  %2 = binade.slice %1 {offsets = array<i64: 1, 0>, strides = array<i64: 2, 1>}
    : (tensor<16x4xf32>) -> tensor<8x4xf32>
  %3 = binade.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %4 = binade.reshape %3 : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}

// -----

// The pad of a splat constant does not fold to a splat: it adds zeros.
// CHECK-LABEL: func.func @pad_adds_zeros
func.func @pad_adds_zeros() -> tensor<8xf32> {
  // CHECK: binade.pad
  %0 = binade.constant dense<3.0> : tensor<4xf32>
  %1 = binade.pad %0 {offsets = array<i64: 2>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// Adjacent pads that are added, in any order, fold to one tensor; here to a concat.
// CHECK-LABEL: func.func @pads_side_by_side
func.func @pads_side_by_side(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>, %c: tensor<2x4xf32>)
    -> tensor<2x8xf32> {
  // CHECK-NEXT: %[[C:.*]] = binade.concat %arg0, %arg1, %arg2 {axis = 1 : i64, binade.phase = #binade.phase<backward>}
  // CHECK-NEXT: return %[[C]]
  %0 = binade.pad %c {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>}
    : (tensor<2x4xf32>) -> tensor<2x8xf32>
  %1 = binade.pad %b {offsets = array<i64: 0, 3>, strides = array<i64: 1, 1>}
    : (tensor<2x1xf32>) -> tensor<2x8xf32>
  %2 = binade.add %0, %1 {binade.phase = #binade.phase<backward>}
    : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = binade.pad %a {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<2x3xf32>) -> tensor<2x8xf32>
  %4 = binade.add %2, %3 {binade.phase = #binade.phase<backward>}
    : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %4 : tensor<2x8xf32>
}

// -----

// Pads that overlap, leave a gap, or differ in another axis are still added.
// CHECK-LABEL: func.func @pads_apart
// CHECK-NOT: binade.concat
func.func @pads_apart(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
  %0 = binade.pad %a {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<2x3xf32>) -> tensor<2x8xf32>
  %1 = binade.pad %a {offsets = array<i64: 0, 2>, strides = array<i64: 1, 1>}
    : (tensor<2x3xf32>) -> tensor<2x8xf32>
  %overlap = binade.add %0, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = binade.pad %a {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<2x3xf32>) -> tensor<2x8xf32>
  %3 = binade.pad %a {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>}
    : (tensor<2x3xf32>) -> tensor<2x8xf32>
  %gap = binade.add %2, %3 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = binade.pad %a {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<2x3xf32>) -> tensor<2x8xf32>
  %5 = binade.pad %b {offsets = array<i64: 0, 3>, strides = array<i64: 1, 1>}
    : (tensor<1x3xf32>) -> tensor<2x8xf32>
  %other = binade.add %4, %5 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %overlap, %gap, %other : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// These casts round and therefore do not fold.
// CHECK-LABEL: func.func @casts_that_round
func.func @casts_that_round(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[Y:.*]] = binade.cast %arg0 : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK-NEXT: binade.cast %[[Y]] : (tensor<4xbf16>) -> tensor<4xf32>
  %0 = binade.cast %x : (tensor<4xf32>) -> tensor<4xbf16>
  %1 = binade.cast %0 : (tensor<4xbf16>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @arithmetic_stays
func.func @arithmetic_stays() -> tensor<4xf32> {
  // CHECK: binade.constant dense<1.000000e-01>
  // CHECK: binade.add
  %0 = binade.constant dense<0.1> : tensor<4xf32>
  %1 = binade.add %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
