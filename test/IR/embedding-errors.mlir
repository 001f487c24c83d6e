// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @table_without_rows(%a: tensor<f32>, %b: tensor<3xi64>) {
  // expected-error@+1 {{expected a table of rows, got 'tensor<f32>'}}
  %r = binade.gather %a, %b : (tensor<f32>, tensor<3xi64>) -> tensor<3xf32>
  return
}

// -----

func.func @indices_are_floats(%a: tensor<9x8xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{operand #1 must be statically shaped tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<3xf32>'}}
  %r = binade.gather %a, %b : (tensor<9x8xf32>, tensor<3xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @gradient_of_other_rows(%a: tensor<3x7xf32>, %b: tensor<3xi64>) {
  // expected-error@+1 {{'binade.gather_grad' op expects a gradient with the shape of the indices and of one row, got 'tensor<3x7xf32>' for indices 'tensor<3xi64>' and table 'tensor<9x8xf32>'}}
  %r = binade.gather_grad %a, %b : (tensor<3x7xf32>, tensor<3xi64>) -> tensor<9x8xf32>
  return
}

// -----

func.func @check_changes_type(%a: tensor<8xi64>) {
  // expected-error@+1 {{'binade.check_index' op requires the same type for all operands and results}}
  %r = binade.check_index %a {low = 0 : i64, high = 10 : i64} : (tensor<8xi64>) -> tensor<8xi32>
  return
}
