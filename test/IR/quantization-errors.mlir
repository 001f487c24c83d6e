// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{quantized elements are signed floats of at most 8 bits, f16, codes of a #binade.code_book or #binade.companded, not bf16}}
  %a:2 = binade.quantize %x {format = #binade.quantized<bf16, per_tensor, scale = f32>} : (tensor<4xf32>) -> (tensor<4xbf16>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{'per_block' expects 2 positive numbers of elements}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_block<4>, scale = f32>} : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected per_tensor, per_row, per_group, per_block; got 'per_column'}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_column, scale = f32>} : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected amax, amax_offset, inverse, inverse_power, floor, round_up, rounded_inverse, rounded_headroom, rounded_four_six, rounded_eden; got 'guess'}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, rule = guess>} : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{scales are f32, bf16, f16, f8E8M0FNU or f8E4M3FN, not 'f64'}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f64>} : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<f64>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{scales in f8E8M0FNU are powers of two, which 'amax' does not produce}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f8E8M0FNU>} : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<f8E8M0FNU>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expanded elements have scales by 'amax', not 'inverse'}}
  %a:4 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse, expand>} : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{code book "short" has 2 values; expected 256 or 16}}
  %a:2 = binade.quantize %x {format = #binade.quantized<#binade.code_book<"short", [0.0, 1.0]>, per_tensor, scale = f32>} : (tensor<4xf32>) -> (tensor<4xi8>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{code book "mixed" expects finite values in ascending order, got}}
  %a:2 = binade.quantize %x {format = #binade.quantized<#binade.code_book<"mixed", [0.0, 0.1, 0.2, 0.15, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5]>, per_tensor, scale = f32>} : (tensor<4xf32>) -> (tensor<2xi8>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{to keep a tensor of shape [4, 32] as ('tensor<4x32xf8E4M3FN>', 'tensor<8xf32>'), got ('tensor<4x32xf8E4M3FN>', 'tensor<4xf32>')}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = f32>} : (tensor<4x32xf32>) -> (tensor<4x32xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @f(%codes: tensor<4xf8E4M3FN>, %scale: tensor<1xf32>) {
  // expected-error@+1 {{to keep a tensor of shape [4] as ('tensor<4xf8E4M3FN>', 'tensor<f32>'), got ('tensor<4xf8E4M3FN>', 'tensor<1xf32>')}}
  %x = binade.dequantize %codes, %scale {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>} : (tensor<4xf8E4M3FN>, tensor<1xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%amax: tensor<f32>) {
  // expected-error@+1 {{expects the smallest magnitudes, too}}
  %a:4 = binade.choose_scale %amax {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, expand>} : (tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @f(%amax: tensor<f32>) {
  // expected-error@+1 {{expects results ('tensor<bf16>', 'tensor<f32>'), got ('tensor<f32>', 'tensor<f32>')}}
  %a:2 = binade.choose_scale %amax {format = #binade.quantized<f8E4M3FN, per_tensor, scale = bf16>} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %factor: tensor<f32>) {
  // expected-error@+1 {{expects factors ('tensor<2xf32>'), got ('tensor<f32>')}}
  %a = binade.encode %x, %factor {format = #binade.quantized<f8E4M3FN, per_group<4>, scale = f32>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf8E4M3FN>
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %factor: tensor<f32>) {
  // expected-error@+1 {{expects codes of type 'tensor<8xf8E4M3FN>', got 'tensor<8xi8>'}}
  %a = binade.encode %x, %factor {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xi8>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expects 'rng' and 'stream', because its format is 'stochastic'}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, stochastic>} : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %rng: tensor<2xi64>) {
  // expected-error@+1 {{expects neither 'rng' nor 'stream', because its format is not 'stochastic'}}
  %a:2 = binade.quantize %x rng(%rng) {format = #binade.quantized<f8E4M3FN, per_row, scale = f32>} : (tensor<4xf32>, tensor<2xi64>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<8x60xf32>) {
  // expected-error@+1 {{expects groups that divide axis -1 of 'tensor<8x60xf32>', got groups of 16}}
  %a = binade.group_max %x {size = 16} : (tensor<8x60xf32>) -> tensor<30xf32>
  return
}

// -----

func.func @f(%x: tensor<8x64xf32>) {
  // expected-error@+1 {{expects groups that divide axis -2 of 'tensor<8x64xf32>', got groups of 16}}
  %a = binade.group_max %x {size = 16, axis = -2} : (tensor<8x64xf32>) -> tensor<32xf32>
  return
}

// -----

func.func @f(%x: tensor<8x64xf32>) {
  // expected-error@+1 {{expects an element for each group of 16 of 'tensor<8x64xf32>', got 'tensor<8xf32>'}}
  %a = binade.group_max %x {size = 16} : (tensor<8x64xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{scales in f8E4M3FN follow rule 'rounded_inverse', 'rounded_headroom', 'rounded_four_six' or 'rounded_eden', which have no other scales; found 'f8E4M3FN' with 'amax'}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{a scale of the tensor needs scales of blocks in f8E4M3FN or f8E8M0FNU, not 'f32'}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f32, tensor_scale = f32>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf32>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{the scale of a tensor is f32, not 'bf16'}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = bf16, rule = rounded_inverse>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<bf16>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{scales in f8E4M3FN are of blocks or rows, not 'per_group'}}
  %a:2 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_group<16>, scale = f8E4M3FN, rule = rounded_inverse>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<8xf8E4M3FN>)
  return
}

// -----

func.func @f(%amax: tensor<4xf32>) {
  // expected-error@+1 {{expects neither a scale of the tensor nor a rule that rounds scales to f8E4M3FN; 'quantize' computes these}}
  %a:2 = binade.choose_scale %amax {format = #binade.quantized<f4E2M1FN, per_row, scale = f8E4M3FN, rule = rounded_inverse>} : (tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<4xf32>)
  return
}

// -----

func.func @f(%codes: tensor<4x32xi8>, %scales: tensor<4x2xf8E4M3FN>) {
  // expected-error@+1 {{as ('tensor<4x32xi8>', 'tensor<4x2xf8E4M3FN>', 'tensor<f32>'), got ('tensor<4x32xi8>', 'tensor<4x2xf8E4M3FN>')}}
  %x = binade.dequantize %codes, %scales {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_inverse>} : (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>) -> tensor<4x32xf32>
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_four_six' maps the largest magnitude of a block to 4 or 6, values of f4E2M1FN, not of f8E4M3FN}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_four_six>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_four_six' compares errors of blocks of at most 16 rows and 16 columns}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 32>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_four_six>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_four_six' compares errors of blocks of at most 16 rows and 16 columns}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_row, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_four_six>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_four_six' needs a scale of the tensor, tensor_scale = f32}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, rule = rounded_four_six>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}

// -----

func.func @f(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{rule 'rounded_four_six' compares errors of rounding to nearest, and cannot be 'stochastic'; use 'rounded_headroom'}}
  %a:3 = binade.quantize %x {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_four_six, stochastic>} : (tensor<4x32xf32>) -> (tensor<4x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>)
  return
}
