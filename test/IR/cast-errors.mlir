// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @shape_changes(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.cast' op requires the same shape for all operands and results}}
  %r = binade.cast %a : (tensor<4xf32>) -> tensor<5xbf16>
  return
}

// -----

func.func @integers_do_not_saturate(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.cast' op saturates to a largest finite float, got result 'tensor<4xi64>'}}
  %r = binade.cast %a {saturate} : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @save_changes_kind(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.save' op inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<4xi64>'}}
  %r = binade.save %a : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @round_to_wider(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.round_to' op rounds to formats with the exponents of f32 and fewer bits of mantissa, got 'f64'}}
  %r = binade.round_to %a {format = f64} : tensor<4xf32>
  return
}

// -----

func.func @round_to_itself(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.round_to' op rounds to formats with the exponents of f32 and fewer bits of mantissa, got 'f32'}}
  %r = binade.round_to %a {format = f32} : tensor<4xf32>
  return
}

// -----

func.func @round_to_fewer_exponents(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.round_to' op rounds to formats with the exponents of f32 and fewer bits of mantissa, got 'f16'}}
  %r = binade.round_to %a {format = f16} : tensor<4xf32>
  return
}

// -----

func.func @result_in_compute_only_format(%a: tensor<4x4xf32>) {
  // expected-error@+1 {{result format 'tf32' is not a storage format; only operands are rounded to it}}
  %r = binade.matmul %a, %a {precision = #binade.precision<compute = tf32, accumulate = f32, result = tf32>}
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @bits_of_another_number(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.bitcast' op needs elements of equally many bits, got 'f32' and 'i64'}}
  %r = binade.bitcast %a : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @bits_of_a_narrow_float(%a: tensor<4xbf16>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 32-bit float or 64-bit float or 8-bit signless integer}}
  %r = binade.bitcast %a : (tensor<4xbf16>) -> tensor<4xi16>
  return
}
