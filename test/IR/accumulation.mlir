// RUN: binade-opt %s | FileCheck %s
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt | FileCheck %s

// CHECK-LABEL: func.func @scaled
func.func @scaled(%x: tensor<8x64xf8E4M3FN>, %s: tensor<f32>, %w: tensor<32x64xf8E5M2>) -> tensor<8x32xbf16> {
  // CHECK-NEXT: binade.scaled_matmul %arg0, %arg1, %arg2, %arg1 {accumulation = #binade.accumulation<bits = 14, step = 32, promote = 0>} : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E5M2>, tensor<f32>) -> tensor<8x32xbf16>
  %y = binade.scaled_matmul %x, %s, %w, %s {accumulation = #binade.accumulation<bits = 14, step = 32, promote = 0>}
    : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E5M2>, tensor<f32>) -> tensor<8x32xbf16>
  return %y : tensor<8x32xbf16>
}
