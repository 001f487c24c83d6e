// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
  // CHECK-NEXT: binade.matmul %arg0, %arg1 : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %0 = binade.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}

// CHECK-LABEL: func.func @transposed_with_bias
func.func @transposed_with_bias(%x: tensor<64x8xbf16>, %w: tensor<32x64xbf16>, %b: tensor<32xf32>)
    -> tensor<8x32xf32> {
  // CHECK-NEXT: binade.matmul %arg0, %arg1, %arg2 {precision = #binade.precision<compute = bf16, accumulate = f32, result = f32>, transpose_lhs, transpose_rhs}
  %0 = binade.matmul %x, %w, %b {transpose_lhs, transpose_rhs,
      precision = #binade.precision<compute = bf16, accumulate = f32, result = f32>}
    : (tensor<64x8xbf16>, tensor<32x64xbf16>, tensor<32xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}

// CHECK-LABEL: func.func @batched
func.func @batched(%x: tensor<2x3x8x64xf32>, %w: tensor<2x3x64x4xf32>) -> tensor<2x3x8x4xf32> {
  // CHECK-NEXT: binade.matmul
  %0 = binade.matmul %x, %w : (tensor<2x3x8x64xf32>, tensor<2x3x64x4xf32>) -> tensor<2x3x8x4xf32>
  return %0 : tensor<2x3x8x4xf32>
}

// CHECK-LABEL: func.func @scaled
func.func @scaled(%x: tensor<2x8x64xf8E4M3FN>, %xs: tensor<f32>, %w: tensor<2x32x64xf8E5M2>, %ws: tensor<f32>)
    -> tensor<2x8x32xbf16> {
  // CHECK-NEXT: binade.scaled_matmul %arg0, %arg1, %arg2, %arg3 : (tensor<2x8x64xf8E4M3FN>, tensor<f32>, tensor<2x32x64xf8E5M2>, tensor<f32>) -> tensor<2x8x32xbf16>
  %0 = binade.scaled_matmul %x, %xs, %w, %ws
    : (tensor<2x8x64xf8E4M3FN>, tensor<f32>, tensor<2x32x64xf8E5M2>, tensor<f32>) -> tensor<2x8x32xbf16>
  return %0 : tensor<2x8x32xbf16>
}

// CHECK-LABEL: func.func @scaled_with_bias
func.func @scaled_with_bias(%x: tensor<8x64xf8E4M3FN>, %xs: tensor<f32>, %w: tensor<32x64xf8E4M3FN>, %ws: tensor<f32>, %b: tensor<32xbf16>)
    -> tensor<8x32xbf16> {
  // CHECK-NEXT: binade.scaled_matmul %arg0, %arg1, %arg2, %arg3, %arg4 : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>, tensor<32xbf16>) -> tensor<8x32xbf16>
  %0 = binade.scaled_matmul %x, %xs, %w, %ws, %b
    : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>, tensor<32xbf16>) -> tensor<8x32xbf16>
  return %0 : tensor<8x32xbf16>
}

// CHECK-LABEL: func.func @scales_of_blocks
func.func @scales_of_blocks(%x: tensor<8x300xf8E4M3FN>, %xs: tensor<3x8xf32>, %w: tensor<144x300xf8E4M3FN>, %ws: tensor<2x4xf32>)
    -> tensor<8x144xbf16> {
  // CHECK-NEXT: binade.scaled_matmul %arg0, %arg1, %arg2, %arg3 {block = array<i64: 1, 128, 128>} : (tensor<8x300xf8E4M3FN>, tensor<3x8xf32>, tensor<144x300xf8E4M3FN>, tensor<2x4xf32>) -> tensor<8x144xbf16>
  %0 = binade.scaled_matmul %x, %xs, %w, %ws {block = array<i64: 1, 128, 128>}
    : (tensor<8x300xf8E4M3FN>, tensor<3x8xf32>, tensor<144x300xf8E4M3FN>, tensor<2x4xf32>) -> tensor<8x144xbf16>
  return %0 : tensor<8x144xbf16>
}
