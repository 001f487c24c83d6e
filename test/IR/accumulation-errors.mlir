// RUN: binade-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{'bits' of an accumulator is from 8 to 24, got 25}}
#wide = #binade.accumulation<bits = 25, step = 32, promote = 0>

// -----

// expected-error@+1 {{'step' of an accumulator is from 1 to 32, got 64}}
#long = #binade.accumulation<bits = 14, step = 64, promote = 128>

// -----

// expected-error@+1 {{'promote' is 0, for never, or a multiple of 'step' = 32, got 48}}
#uneven = #binade.accumulation<bits = 14, step = 32, promote = 48>

// -----

#tensor = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse>
// expected-error@+1 {{'accumulation' adds to sums in f32, for which 'accumulate' is f32}}
#narrow = #binade.precision<compute = bf16, accumulate = bf16, result = bf16, operands = [#tensor, #tensor], accumulation = <bits = 14, step = 32, promote = 0>>

// -----

#plain = #binade.precision<compute = bf16, accumulate = f32, result = bf16, accumulation = <bits = 14, step = 32, promote = 0>>
func.func @not_quantized(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>) {
  // expected-error@+1 {{has an operand that is not quantized to FP8 (f8E4M3FN or f8E5M2, without an expanded range), so that a decision has no 'accumulation'}}
  %y = binade.matmul %a, %b {precision = #plain} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  return
}

// -----

#row = #binade.quantized<f8E4M3FN, per_block<1, 32>, scale = f32, rule = inverse>
#blocks = #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [#row, #row], accumulation = <bits = 14, step = 32, promote = 0>>
func.func @blocks_of_batches(%a: tensor<2x8x64xf32>, %b: tensor<2x64x32xf32>) {
  // expected-error@+1 {{multiplies tensor<2x8x64xf32> and tensor<2x64x32xf32>, for which each operand has one scale; more scales need matrices}}
  %y = binade.matmul %a, %b {precision = #blocks} : (tensor<2x8x64xf32>, tensor<2x64x32xf32>) -> tensor<2x8x32xf32>
  return
}

// -----

#group = #binade.quantized<f8E4M3FN, per_group<32>, scale = f32, rule = inverse>
#groups = #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [#group, #group], accumulation = <bits = 14, step = 32, promote = 0>>
func.func @groups(%a: tensor<8x64xf32>, %b: tensor<32x64xf32>) {
  // expected-error@+1 {{whose groups are not blocks of rows and summed elements}}
  %y = binade.matmul %a, %b {precision = #groups, transpose_rhs} : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
  return
}
