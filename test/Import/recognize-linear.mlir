// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// One value per column, added to a matmul.

// CHECK-LABEL: func @bias
// CHECK-SAME:    %[[X:.*]]: tensor<2x3xf32>, %[[W:.*]]: tensor<4x3xf32>, %[[B:.*]]: tensor<4xf32>
// CHECK-NEXT:    %[[Y:.*]] = binade.matmul %[[X]], %[[W]], %[[B]] {transpose_rhs}
// CHECK-NEXT:    return %[[Y]]
func.func @bias(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = binade.matmul %x, %w {transpose_rhs} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %1 = binade.broadcast %b {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %2 = binade.add %1, %0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// The rows of a batch were flattened for the matmul.

// CHECK-LABEL: func @bias_after_reshape
// CHECK-NEXT:    %[[Y:.*]] = binade.matmul %arg0, %arg1, %arg2
// CHECK-NEXT:    binade.reshape %[[Y]] : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT:    return
func.func @bias_after_reshape(%x: tensor<6x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>)
    -> tensor<2x3x4xf32> {
  %0 = binade.matmul %x, %w : (tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %1 = binade.reshape %0 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %2 = binade.broadcast %b {axes = array<i64: 2>} : (tensor<4xf32>) -> tensor<2x3x4xf32>
  %3 = binade.add %1, %2 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %3 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func @one_number_per_row
// CHECK:         binade.add
func.func @one_number_per_row(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>)
    -> tensor<4x4xf32> {
  %0 = binade.matmul %x, %w : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  %1 = binade.broadcast %b {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %2 = binade.add %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// The reshape mixes columns.

// CHECK-LABEL: func @other_columns
// CHECK:         binade.add
func.func @other_columns(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>, %b: tensor<2xf32>)
    -> tensor<8x2xf32> {
  %0 = binade.matmul %x, %w : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  %1 = binade.reshape %0 : (tensor<4x4xf32>) -> tensor<8x2xf32>
  %2 = binade.broadcast %b {axes = array<i64: 1>} : (tensor<2xf32>) -> tensor<8x2xf32>
  %3 = binade.add %1, %2 : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  return %3 : tensor<8x2xf32>
}

// CHECK-LABEL: func @product_is_used
// CHECK:         binade.add
func.func @product_is_used(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = binade.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = binade.broadcast %b {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %2 = binade.add %0, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %2, %0 : tensor<2x4xf32>, tensor<2x4xf32>
}
