// RUN: binade-opt %s -split-input-file -verify-diagnostics

// Formats whose scales are corrected.

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_eden' maps the largest magnitude of a block to the largest value of f4E2M1FN, not of f8E4M3FN}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_eden' corrects scales of blocks of one row or one column of at most 16 elements}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<16, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_eden' corrects scales of blocks of one row or one column of at most 16 elements}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 32>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_eden' corrects scales of blocks of one row or one column of at most 16 elements}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_row, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_eden' needs a scale of the tensor, tensor_scale = f32}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, rule = rounded_eden>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_eden' rounds scales stochastically, and cannot be 'stochastic'; use 'rounded_headroom'}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden, stochastic>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{expects 'rng' and 'stream', because its scales are rounded stochastically}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<8x128xf32>, %w: tensor<128x16xf32>) {
  // expected-error@+1 {{an operand with rule 'rounded_eden' needs a transform of groups of 128 elements}}
  %y = binade.matmul %x, %w {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [#binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>, #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>]>} : (tensor<8x128xf32>, tensor<128x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x128xf32>, %w: tensor<128x16xf32>) {
  // expected-error@+1 {{an operand with rule 'rounded_eden' needs a transform of groups of 128 elements}}
  %y = binade.matmul %x, %w {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [#binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>, #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_eden>], transform = <hadamard = 64, signs = step>>} : (tensor<8x128xf32>, tensor<128x16xf32>) -> tensor<8x16xf32>
  return
}
