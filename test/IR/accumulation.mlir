// RUN: binade-opt %s | FileCheck %s
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt | FileCheck %s

#rows = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse>
#decision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [#rows, #rows], accumulation = <bits = 14, step = 32, promote = 128>>

// CHECK-LABEL: func.func @decided
func.func @decided(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>) -> tensor<8x32xf32> {
  // CHECK-NEXT: binade.matmul {{.*}}, accumulation = <bits = 14, step = 32, promote = 128>>} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %y = binade.matmul %a, %b {precision = #decision} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// CHECK-LABEL: func.func @scaled
func.func @scaled(%x: tensor<8x64xf8E4M3FN>, %s: tensor<f32>, %w: tensor<32x64xf8E5M2>) -> tensor<8x32xbf16> {
  // CHECK-NEXT: binade.scaled_matmul %arg0, %arg1, %arg2, %arg1 {accumulation = #binade.accumulation<bits = 14, step = 32, promote = 0>} : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E5M2>, tensor<f32>) -> tensor<8x32xbf16>
  %y = binade.scaled_matmul %x, %s, %w, %s {accumulation = #binade.accumulation<bits = 14, step = 32, promote = 0>}
    : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E5M2>, tensor<f32>) -> tensor<8x32xbf16>
  return %y : tensor<8x32xbf16>
}
