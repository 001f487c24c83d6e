// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @unknown_format(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{expected a format: f64, f32, tf32, bf16, f16, f8E4M3FN, f8E5M2, f8E4M3, f8E3M4, f8E4M3FNUZ, f8E5M2FNUZ, f8E4M3B11FNUZ, f8E8M0FNU, f6E3M2FN, f6E2M3FN or f4E2M1FN; got 'f12'; did you mean}}
  %r = binade.exp %a {precision = #binade.precision<compute = f12, result = f32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @integer_format(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{or f4E2M1FN; got 'i8'}}
  %r = binade.exp %a {precision = #binade.precision<compute = i8, result = f32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @unknown_field(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{expected compute, accumulate, result, operands, transform, accumulation, clamp, rule; got 'computes'; did you mean 'compute'?}}
  %r = binade.exp %a {precision = #binade.precision<computes = f16, result = f32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @missing_field(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{expected 'result = '}}
  %r = binade.exp %a {precision = #binade.precision<compute = f16>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @field_twice(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'compute' is given twice}}
  %r = binade.exp %a {precision = #binade.precision<compute = f16, compute = f16, result = f32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @operands_in_fp8(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{compute format 'f8E5M2' is not f32, tf32, bf16 or f16}}
  %r = binade.matmul %a, %a {precision = #binade.precision<compute = f8E5M2, result = f32>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @result_in_fp8(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'binade.matmul' op expects a result in f32, bf16 or f16, got 'f8E4M3FN'; 'quantize' computes values of 8 bits, with scales}}
  %r = binade.matmul %a, %a {precision = #binade.precision<compute = bf16, accumulate = f32, result = f8E4M3FN>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @saved_in_fp8(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %r = binade.save %a {precision = #binade.precision<compute = f32, result = f8E4M3FN>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @sums_in_fp8(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{accumulation format 'f8E5M2' is not f64, f32, bf16 or f16}}
  %r = binade.matmul %a, %a {precision = #binade.precision<compute = f16, accumulate = f8E5M2, result = f32>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @sums_nothing(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'binade.relu' op has no accumulation format: only matmuls, convolutions and attention have an accumulation format, got accumulate = 'f32'}}
  %r = binade.relu %a {precision = #binade.precision<compute = f16, accumulate = f32, result = f16>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @copies_in_two_formats(%a: tensor<4x4xf32>) -> tensor<16xf32> {
  // expected-error@+1 {{'binade.reshape' op copies elements, in one format, got compute = 'bf16' and result = 'f32'}}
  %r = binade.reshape %a {precision = #binade.precision<compute = bf16, result = f32>} : (tensor<4x4xf32>) -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// -----

func.func @quantizes_nothing(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'binade.relu' op quantizes no operands}}
  %r = binade.relu %a {precision = #binade.precision<compute = f16, result = f16, operands = [unit]>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @other_number_of_operands(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'binade.matmul' op has 2 operands, and a decision about 1}}
  %r = binade.matmul %a, %a {precision = #binade.precision<compute = f16, result = f16, operands = [unit]>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @no_bias(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'binade.matmul' op rounds operand 1 to 'compute'; only a bias has a format of its own, got bf16}}
  %r = binade.matmul %a, %a {precision = #binade.precision<compute = f16, result = f16, operands = [unit, bf16]>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @computes_in_f64(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'binade.exp' op has operands that are not f64, for which a decision has f32 or a narrower format, got f64}}
  %r = binade.exp %a {precision = #binade.precision<compute = f64, result = f32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @mixes_f64(%a: tensor<4xf32>, %b: tensor<4xf64>) -> tensor<4xf32> {
  // expected-error@+1 {{'binade.add' op mixes f64 with 'f32'; convert by 'binade.cast'}}
  %r = binade.add %a, %b : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Formats of up to 32 bits may be mixed: the op computes in f32.
func.func @mixes_narrow_formats(%a: tensor<4xf32>, %b: tensor<4xf16>) -> tensor<4xbf16> {
  %r = binade.add %a, %b : (tensor<4xf32>, tensor<4xf16>) -> tensor<4xbf16>
  return %r : tensor<4xbf16>
}

// -----

func.func @matmul_of_fp8(%a: tensor<4x4xf8E4M3FN>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'binade.matmul' op expects operand 0 in f32, bf16 or f16, got 'tensor<4x4xf8E4M3FN>'; 'scaled_matmul' multiplies values of 8 bits}}
  %r = binade.matmul %a, %a : (tensor<4x4xf8E4M3FN>, tensor<4x4xf8E4M3FN>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @not_stored(%a: tensor<4xf32>) -> tensor<4xtf32> {
  // expected-error@+1 {{result #0 must be statically shaped tensor of floating-point (f64, f32, bf16, f16, FP8, FP6 or f4E2M1FN)}}
  %r = binade.cast %a : (tensor<4xf32>) -> tensor<4xtf32>
  return %r : tensor<4xtf32>
}

// -----

func.func @gather_converts(%a: tensor<9x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xf16> {
  // expected-error@+1 {{'binade.gather' op inferred type(s) 'tensor<3x4xf32>' are incompatible with return type(s) of operation 'tensor<3x4xf16>'}}
  %r = binade.gather %a, %i : (tensor<9x4xf32>, tensor<3xi64>) -> tensor<3x4xf16>
  return %r : tensor<3x4xf16>
}

// -----

func.func @misspelled(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{custom op 'binade.rellu' is unknown; did you mean 'relu'?}}
  %r = binade.rellu %a : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @axis_out_of_range(%a: tensor<4x4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{axis 2 is out of range: 'tensor<4x4xf32>' has rank 2}}
  %r = binade.reduce_sum %a {axes = array<i64: 2>} : (tensor<4x4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// expected-error@+1 {{'binade.optimizer' op expects 'states' to be a list of #binade.setting<"name" = initial value>, got "m"}}
binade.optimizer @rule {states = ["m"], hypers = []}

// -----

// expected-error@+1 {{expected none, f32,}}
func.func private @storage() attributes {test.storage = #binade.storage<parameter = bf16, master = f23>}
