// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @shapes_differ(%a: tensor<4xf32>, %b: tensor<8xf32>) {
  // expected-error@+1 {{'binade.add' op requires the same shape for all operands and results}}
  %r = binade.add %a, %b : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @integers_and_floats(%a: tensor<4xf32>, %b: tensor<4xi64>) {
  // expected-error@+1 {{'binade.mul' op expects two float types, or equal element types, got 'tensor<4xf32>' and 'tensor<4xi64>'}}
  %r = binade.mul %a, %b : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @result_of_other_type(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{'binade.sub' op inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<4xi64>'}}
  %r = binade.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @exp_of_integers(%a: tensor<4xi64>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of floating-point (f64, f32, bf16, f16, FP8, FP6 or f4E2M1FN) values, but got 'tensor<4xi64>'}}
  %r = binade.exp %a : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @angle_of_integers(%a: tensor<4xi64>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of floating-point (f64, f32, bf16, f16, FP8, FP6 or f4E2M1FN) values, but got 'tensor<4xi64>'}}
  %r = binade.sin %a : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @bits_of_floats(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of integer values, but got 'tensor<4xf32>'}}
  %r = binade.and %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @not_of_a_number(%a: tensor<4xi64>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 1-bit signless integer values, but got 'tensor<4xi64>'}}
  %r = binade.not %a : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @condition_is_a_number(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 1-bit signless integer values, but got 'tensor<4xf32>'}}
  %r = binade.select %a, %b, %c : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @comparison_result_not_bool(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{result #0 must be statically shaped tensor of 1-bit signless integer values, but got 'tensor<4xf32>'}}
  %r = binade.compare %a, %b {comparison = #binade.comparison<less>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @dynamic_shape(%a: tensor<?xf32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of floating-point (f64, f32, bf16, f16, FP8, FP6 or f4E2M1FN) values, but got 'tensor<?xf32>'}}
  %r = binade.neg %a : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @sum_of_few_bits(%a: tensor<4xui4>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of floating-point (f64, f32, bf16, f16, FP8, FP6 or f4E2M1FN) or integer values, but got 'tensor<4xui4>'}}
  %r = binade.add %a, %a : (tensor<4xui4>, tensor<4xui4>) -> tensor<4xui4>
  return
}
