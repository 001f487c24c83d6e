// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @images
func.func @images(%x: tensor<2x4x9x7xf32>, %w: tensor<6x2x3x3xf32>, %b: tensor<6xf32>)
    -> tensor<2x6x5x3xf32> {
  // CHECK-NEXT: binade.conv %arg0, %arg1, %arg2 {dilations = array<i64: 1, 2>, groups = 2 : i64, padding_high = array<i64: 1, 0>, padding_low = array<i64: 1, 2>, strides = array<i64: 2, 2>}
  %0 = binade.conv %x, %w, %b {strides = array<i64: 2, 2>, padding_low = array<i64: 1, 2>,
      padding_high = array<i64: 1, 0>, dilations = array<i64: 1, 2>, groups = 2 : i64}
    : (tensor<2x4x9x7xf32>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> tensor<2x6x5x3xf32>
  return %0 : tensor<2x6x5x3xf32>
}

// CHECK-LABEL: func.func @channels_last
func.func @channels_last(%x: tensor<2x9x4xbf16>, %w: tensor<6x4x3xbf16>) -> tensor<2x7x6xf32> {
  // CHECK-NEXT: binade.conv %arg0, %arg1 {channels_last,
  %0 = binade.conv %x, %w {strides = array<i64: 1>, padding_low = array<i64: 0>,
      padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64, channels_last}
    : (tensor<2x9x4xbf16>, tensor<6x4x3xbf16>) -> tensor<2x7x6xf32>
  return %0 : tensor<2x7x6xf32>
}

// CHECK-LABEL: func.func @gradients
func.func @gradients(%dy: tensor<2x6x7xf32>, %x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>)
    -> (tensor<2x4x9xf32>, tensor<6x4x3xf32>) {
  // CHECK-NEXT: binade.conv_input_grad %arg0, %arg2
  %dx = binade.conv_input_grad %dy, %w {strides = array<i64: 1>, padding_low = array<i64: 0>,
      padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64}
    : (tensor<2x6x7xf32>, tensor<6x4x3xf32>) -> tensor<2x4x9xf32>
  // CHECK-NEXT: binade.conv_weight_grad %arg0, %arg1
  %dw = binade.conv_weight_grad %dy, %x {strides = array<i64: 1>, padding_low = array<i64: 0>,
      padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64}
    : (tensor<2x6x7xf32>, tensor<2x4x9xf32>) -> tensor<6x4x3xf32>
  return %dx, %dw : tensor<2x4x9xf32>, tensor<6x4x3xf32>
}
