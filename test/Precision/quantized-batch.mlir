// RUN: binade-opt %s --binade-assign-precision=policy=fp8-block | FileCheck %s

// Inputs of a batch count as activations; persistent arguments count as weights.

// CHECK-LABEL: func.func @step
// CHECK:         binade.matmul %arg0, %arg1 {{.*}}operands = [#binade.quantized<f8E4M3FN, per_block<1, 128>, {{[^>]*}}>, #binade.quantized<f8E4M3FN, per_block<128, 128>
func.func @step(%x: tensor<4x64xf32> {binade.name = "x", binade.role = #binade.role<batch>},
                %w: tensor<64x32xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                %last: tensor<32x2xf32> {binade.name = "last", binade.role = #binade.role<parameter>}) -> tensor<4x2xf32> {
  %y = binade.matmul %x, %w : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
  %z = binade.matmul %y, %last : (tensor<4x32xf32>, tensor<32x2xf32>) -> tensor<4x2xf32>
  return %z : tensor<4x2xf32>
}
