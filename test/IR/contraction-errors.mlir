// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @ranks_differ(%a: tensor<2x8x64xf32>, %b: tensor<64x32xf32>) {
  // expected-error@+1 {{expected operands of equal rank of at least 2, with equal leading axes, got 'tensor<2x8x64xf32>' and 'tensor<64x32xf32>'}}
  %r = binade.matmul %a, %b : (tensor<2x8x64xf32>, tensor<64x32xf32>) -> tensor<2x8x32xf32>
  return
}

// -----

func.func @vectors(%a: tensor<64xf32>, %b: tensor<64xf32>) {
  // expected-error@+1 {{expected operands of equal rank of at least 2, with equal leading axes, got 'tensor<64xf32>' and 'tensor<64xf32>'}}
  %r = binade.matmul %a, %b : (tensor<64xf32>, tensor<64xf32>) -> tensor<f32>
  return
}

// -----

func.func @leading_axes_differ(%a: tensor<2x8x64xf32>, %b: tensor<3x64x32xf32>) {
  // expected-error@+1 {{equal leading axes, got 'tensor<2x8x64xf32>' and 'tensor<3x64x32xf32>'}}
  %r = binade.matmul %a, %b : (tensor<2x8x64xf32>, tensor<3x64x32xf32>) -> tensor<2x8x32xf32>
  return
}

// -----

func.func @contracted_dimensions_differ(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>) {
  // expected-error@+1 {{contracted dimensions differ: lhs has 64, rhs has 32}}
  %r = binade.matmul %a, %b {transpose_rhs} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @bias_of_rows(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>, %c: tensor<8xf32>) {
  // expected-error@+1 {{expected a bias of 32 elements, got 'tensor<8xf32>'}}
  %r = binade.matmul %a, %b, %c : (tensor<8x64xf32>, tensor<64x32xf32>, tensor<8xf32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @wrong_result(%a: tensor<64x8xf32>, %b: tensor<64x32xf32>) {
  // expected-error@+1 {{'binade.matmul' op inferred type(s) 'tensor<8x32xf32>' are incompatible with return type(s) of operation 'tensor<64x32xf32>'}}
  %r = binade.matmul %a, %b {transpose_lhs} : (tensor<64x8xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return
}

// -----

func.func @scaled_ranks_differ(%a: tensor<2x8x64xf8E4M3FN>, %b: tensor<32x64xf8E4M3FN>, %s: tensor<f32>) {
  // expected-error@+1 {{expects operands of equal rank of at least 2, with equal leading axes, got 'tensor<2x8x64xf8E4M3FN>' and 'tensor<32x64xf8E4M3FN>'}}
  %r = binade.scaled_matmul %a, %s, %b, %s : (tensor<2x8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @scaled_rows_differ(%a: tensor<8x64xf8E4M3FN>, %b: tensor<32x48xf8E4M3FN>, %s: tensor<f32>) {
  // expected-error@+1 {{expects rows of equal length and a result with one element per pair of rows, got 'tensor<8x64xf8E4M3FN>', 'tensor<32x48xf8E4M3FN>' and 'tensor<8x32xf32>'}}
  %r = binade.scaled_matmul %a, %s, %b, %s : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x48xf8E4M3FN>, tensor<f32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @scaled_wrong_result(%a: tensor<8x64xf8E4M3FN>, %b: tensor<32x64xf8E4M3FN>, %s: tensor<f32>) {
  // expected-error@+1 {{expects rows of equal length and a result with one element per pair of rows, got 'tensor<8x64xf8E4M3FN>', 'tensor<32x64xf8E4M3FN>' and 'tensor<32x8xf32>'}}
  %r = binade.scaled_matmul %a, %s, %b, %s : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>) -> tensor<32x8xf32>
  return
}

// -----

func.func @scaled_by_a_vector(%a: tensor<8x64xf8E4M3FN>, %b: tensor<32x64xf8E4M3FN>, %s: tensor<8xf32>, %t: tensor<f32>) {
  // expected-error@+1 {{expects one scale for each operand, got 'tensor<8xf32>' and 'tensor<f32>'}}
  %r = binade.scaled_matmul %a, %s, %b, %t : (tensor<8x64xf8E4M3FN>, tensor<8xf32>, tensor<32x64xf8E4M3FN>, tensor<f32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @scaled_with_a_short_bias(%a: tensor<8x64xf8E4M3FN>, %b: tensor<32x64xf8E4M3FN>, %s: tensor<f32>, %bias: tensor<8xf32>) {
  // expected-error@+1 {{expects a bias of 32 elements, got 'tensor<8xf32>'}}
  %r = binade.scaled_matmul %a, %s, %b, %s, %bias : (tensor<8x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>, tensor<8xf32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @scaled_block_of_nothing(%a: tensor<8x64xf8E4M3FN>, %s: tensor<1x8xf32>) {
  // expected-error@+1 {{expects a block of three positive sizes and operands of rank 2, got [1, 0, 128] and 'tensor<8x64xf8E4M3FN>'}}
  %r = binade.scaled_matmul %a, %s, %a, %s {block = array<i64: 1, 0, 128>} : (tensor<8x64xf8E4M3FN>, tensor<1x8xf32>, tensor<8x64xf8E4M3FN>, tensor<1x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @scaled_blocks_of_batches(%a: tensor<2x8x64xf8E4M3FN>, %s: tensor<1x8xf32>) {
  // expected-error@+1 {{operands of rank 2, got [1, 1, 128] and 'tensor<2x8x64xf8E4M3FN>'}}
  %r = binade.scaled_matmul %a, %s, %a, %s {block = array<i64: 1, 1, 128>} : (tensor<2x8x64xf8E4M3FN>, tensor<1x8xf32>, tensor<2x8x64xf8E4M3FN>, tensor<1x8xf32>) -> tensor<2x8x8xf32>
  return
}

// -----

func.func @scales_of_rows_not_transposed(%a: tensor<8x256xf8E4M3FN>, %s: tensor<8x2xf32>) {
  // expected-error@+1 {{expects scales of blocks [1, 1, 128] of 'tensor<8x256xf8E4M3FN>' and 'tensor<8x256xf8E4M3FN>', got 'tensor<8x2xf32>' and 'tensor<8x2xf32>'}}
  %r = binade.scaled_matmul %a, %s, %a, %s {block = array<i64: 1, 1, 128>} : (tensor<8x256xf8E4M3FN>, tensor<8x2xf32>, tensor<8x256xf8E4M3FN>, tensor<8x2xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @too_few_scales_of_blocks(%a: tensor<8x256xf8E4M3FN>, %s: tensor<2x8xf32>, %t: tensor<1x1xf32>) {
  // expected-error@+1 {{got 'tensor<2x8xf32>' and 'tensor<1x1xf32>'}}
  %r = binade.scaled_matmul %a, %s, %a, %t {block = array<i64: 1, 128, 128>} : (tensor<8x256xf8E4M3FN>, tensor<2x8xf32>, tensor<8x256xf8E4M3FN>, tensor<1x1xf32>) -> tensor<8x8xf32>
  return
}

// -----

// It has the same type with and without the transpose.
func.func @misspelled_attribute(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) {
  // expected-error@+1 {{has no attribute called 'transpose_rsh'; did you mean 'transpose_rhs'?}}
  %r = binade.matmul %a, %b {transpose_rsh} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// Attributes of other dialects are theirs.
func.func @attribute_of_a_user(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %r = binade.matmul %a, %b {mine.note = "kept"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
