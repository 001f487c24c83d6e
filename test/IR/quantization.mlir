// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @groups
func.func @groups(%x: tensor<8x64xf32>) -> tensor<8x64xbf16> {
  // CHECK: %[[P:.*]]:2 = binade.quantize %{{.*}} {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = bf16, rule = amax_offset>, saturate} : (tensor<8x64xf32>) -> (tensor<8x64xf8E4M3FN>, tensor<32xbf16>)
  %codes, %scales = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = bf16, rule = amax_offset>, saturate} : (tensor<8x64xf32>) -> (tensor<8x64xf8E4M3FN>, tensor<32xbf16>)
  // CHECK: binade.dequantize %[[P]]#0, %[[P]]#1
  %y = binade.dequantize %codes, %scales {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = bf16, rule = amax_offset>} : (tensor<8x64xf8E4M3FN>, tensor<32xbf16>) -> tensor<8x64xbf16>
  return %y : tensor<8x64xbf16>
}

// CHECK: format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse, stochastic, history = 3, margin = 2>
func.func private @delayed() attributes {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, margin = 2, stochastic, history = 3, rule = inverse>}

// Companded elements are stored as i8, with or without a sign.
// CHECK-LABEL: func.func @companded
func.func @companded(%x: tensor<8x60xf32>) {
  // CHECK: format = #binade.quantized<#binade.companded<softsign>, per_group<32>, scale = f16>{{.*}} -> (tensor<8x60xi8>, tensor<15xf16>)
  %a:2 = binade.quantize %x {format = #binade.quantized<#binade.companded<softsign>, per_group<32>, scale = f16>} : (tensor<8x60xf32>) -> (tensor<8x60xi8>, tensor<15xf16>)
  // CHECK: format = #binade.quantized<#binade.companded<sqrt_softsign>, per_group<32>, scale = f32>
  %b:2 = binade.quantize %x {format = #binade.quantized<#binade.companded<sqrt_softsign>, per_group<32>, scale = f32>} : (tensor<8x60xf32>) -> (tensor<8x60xi8>, tensor<15xf32>)
  return
}

// CHECK-LABEL: func.func @group_max
func.func @group_max(%x: tensor<8x64xf32>) -> tensor<8x4xf32> {
  // CHECK: binade.group_max %{{.*}} {size = 16 : i64} : (tensor<8x64xf32>) -> tensor<8x4xf32>
  %y = binade.group_max %x {size = 16} : (tensor<8x64xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// Stochastic rounding draws random numbers; dequantization does not depend on the rounding.
// CHECK-LABEL: func.func @stochastic
func.func @stochastic(%x: tensor<8x64xf32>, %rng: tensor<2xi64>, %u: tensor<8x64xf32>, %s: tensor<8xf32>) {
  // CHECK: binade.quantize %{{.*}} rng(%{{.*}}) {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, stochastic>, saturate, stream = 7 : i64} : (tensor<8x64xf32>, tensor<2xi64>)
  %a:2 = binade.quantize %x rng(%rng) {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, stochastic>, saturate, stream = 7 : i64} : (tensor<8x64xf32>, tensor<2xi64>) -> (tensor<8x64xf8E4M3FN>, tensor<8xf32>)
  // CHECK: binade.encode %{{.*}} {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, expand, stochastic>, saturate}
  %b = binade.encode %x, %s, %s, %s, %u {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, expand, stochastic>, saturate} : (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x64xf32>) -> tensor<8x64xf8E4M3FN>
  return
}

// The elements that share a scale determine the number of scales.
// CHECK-LABEL: func.func @granularities
func.func @granularities(%x: tensor<2x5x64xf32>) {
  // CHECK: per_tensor, scale = f32{{.*}} -> (tensor<2x5x64xf8E5M2>, tensor<f32>)
  %a:2 = binade.quantize %x {format = #binade.quantized<f8E5M2, per_tensor, scale = f32>} : (tensor<2x5x64xf32>) -> (tensor<2x5x64xf8E5M2>, tensor<f32>)
  // CHECK: per_row, scale = f32{{.*}}, tensor<2x5xf32>)
  %b:2 = binade.quantize %x {format = #binade.quantized<f8E5M2, per_row, scale = f32>} : (tensor<2x5x64xf32>) -> (tensor<2x5x64xf8E5M2>, tensor<2x5xf32>)
  // CHECK: per_group<256>, scale = f32, expand{{.*}}, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %c:4 = binade.quantize %x {format = #binade.quantized<f8E5M2, per_group<256>, scale = f32, expand>} : (tensor<2x5x64xf32>) -> (tensor<2x5x64xf8E5M2>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: per_block<2, 32>, scale = f8E8M0FNU, rule = round_up{{.*}}, tensor<2x3x2xf8E8M0FNU>)
  %d:2 = binade.quantize %x {format = #binade.quantized<f8E5M2, per_block<2, 32>, scale = f8E8M0FNU, rule = round_up>} : (tensor<2x5x64xf32>) -> (tensor<2x5x64xf8E5M2>, tensor<2x3x2xf8E8M0FNU>)
  return
}

// Codes of less than 8 bits are stored in one byte each, those of a book of 16 values in pairs.
// CHECK-LABEL: func.func @narrow
func.func @narrow(%x: tensor<3x5xf32>) {
  // CHECK: binade.quantize {{.*}} -> (tensor<3x5xi8>, tensor<3xf8E8M0FNU>)
  %a:2 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_row, scale = f8E8M0FNU, rule = floor>} : (tensor<3x5xf32>) -> (tensor<3x5xi8>, tensor<3xf8E8M0FNU>)
  // CHECK: #binade.code_book<"steps", [-1.000000000e+00, -8.750000000e-01,
  // CHECK-SAME: -> (tensor<8xi8>, tensor<f32>)
  %b:2 = binade.quantize %x {format = #binade.quantized<#binade.code_book<"steps", [-1.0, -0.875, -0.75, -0.625, -0.5, -0.375, -0.25, -0.125, 0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0]>, per_tensor, scale = f32>} : (tensor<3x5xf32>) -> (tensor<8xi8>, tensor<f32>)
  return
}

// A scale of the tensor is the last part.
// CHECK-LABEL: func.func @two_levels
func.func @two_levels(%x: tensor<4x40xf32>) -> tensor<4x40xf32> {
  // CHECK: %[[P:.*]]:3 = binade.quantize %{{.*}} {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_inverse>, saturate} : (tensor<4x40xf32>) -> (tensor<4x40xi8>, tensor<4x3xf8E4M3FN>, tensor<f32>)
  %p:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, rule = rounded_inverse, tensor_scale = f32>, saturate} : (tensor<4x40xf32>) -> (tensor<4x40xi8>, tensor<4x3xf8E4M3FN>, tensor<f32>)
  // CHECK: binade.dequantize %[[P]]#0, %[[P]]#1, %[[P]]#2
  %y = binade.dequantize %p#0, %p#1, %p#2 {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_inverse>} : (tensor<4x40xi8>, tensor<4x3xf8E4M3FN>, tensor<f32>) -> tensor<4x40xf32>
  return %y : tensor<4x40xf32>
}

// CHECK-LABEL: func.func @headroom
func.func @headroom(%x: tensor<4x40xf32>) {
  // CHECK: binade.quantize %{{.*}} {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, rule = rounded_headroom>}
  %p:2 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, rule = rounded_headroom>} : (tensor<4x40xf32>) -> (tensor<4x40xi8>, tensor<4x3xf8E4M3FN>)
  return
}

// CHECK-LABEL: func.func @better_scale
func.func @better_scale(%x: tensor<40x40xf32>) {
  // CHECK: binade.quantize %{{.*}} {format = #binade.quantized<f4E2M1FN, per_block<16, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_four_six>}
  %p:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<16, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_four_six>} : (tensor<40x40xf32>) -> (tensor<40x40xi8>, tensor<3x3xf8E4M3FN>, tensor<f32>)
  return
}

// Random numbers are for the scales.
// CHECK-LABEL: func.func @corrected_scale
func.func @corrected_scale(%x: tensor<48x5xf32>, %rng: tensor<2xi64>) {
  // CHECK: binade.quantize %{{.*}} rng(%{{.*}}) {format = #binade.quantized<f4E2M1FN, per_block<16, 1>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>, saturate, stream = 3 : i64}
  %p:3 = binade.quantize %x rng(%rng) {format = #binade.quantized<f4E2M1FN, per_block<16, 1>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>, saturate, stream = 3 : i64} : (tensor<48x5xf32>, tensor<2xi64>) -> (tensor<48x5xi8>, tensor<3x5xf8E4M3FN>, tensor<f32>)
  return
}

// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<4x16xf32>, %amax: tensor<4xf32>, %least: tensor<4xf32>) -> tensor<4x16xf8E4M3FN> {
  // CHECK: %[[S:.*]], %[[F:.*]], %[[E:.*]]:2 = binade.choose_scale
  %scale, %factor, %expansion:2 = binade.choose_scale %amax, %least {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, expand>} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: binade.encode %{{.*}}, %[[F]], %[[E]]#0, %[[E]]#1
  %codes = binade.encode %x, %factor, %expansion#0, %expansion#1 {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, expand>, saturate} : (tensor<4x16xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x16xf8E4M3FN>
  return %codes : tensor<4x16xf8E4M3FN>
}
