// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @logits_have_three_axes(%a: tensor<2x4x10xf32>, %b: tensor<2xi64>) {
  // expected-error@+1 {{expected logits [rows, classes] and one label per row, got 'tensor<2x4x10xf32>' and 'tensor<2xi64>'}}
  %r:3 = binade.cross_entropy %a, %b {ignore_index = -100 : i64} : (tensor<2x4x10xf32>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @labels_differ(%a: tensor<8x10xf32>, %b: tensor<9xi64>) {
  // expected-error@+1 {{expected logits [rows, classes] and one label per row, got 'tensor<8x10xf32>' and 'tensor<9xi64>'}}
  %r:3 = binade.cross_entropy %a, %b {ignore_index = -100 : i64} : (tensor<8x10xf32>, tensor<9xi64>) -> (tensor<9xf32>, tensor<9xf32>, tensor<9xf32>)
  return
}

// -----

func.func @gradient_of_other_rows(%a: tensor<f32>, %b: tensor<8x10xf32>, %c: tensor<8xi64>, %d: tensor<8xf32>) {
  // expected-error@+1 {{expected gradient of shape [8], got 'tensor<f32>'}}
  %r = binade.cross_entropy_grad %a, %b, %c, %d, %d {ignore_index = -100 : i64} : (tensor<f32>, tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x10xf32>
  return
}

// -----

func.func @gradient_with_other_labels(%a: tensor<8xf32>, %b: tensor<8x10xf32>, %c: tensor<9xi64>, %d: tensor<8xf32>) {
  // expected-error@+1 {{expected labels of shape [8], got 'tensor<9xi64>'}}
  %r = binade.cross_entropy_grad %a, %b, %c, %d, %d {ignore_index = -100 : i64} : (tensor<8xf32>, tensor<8x10xf32>, tensor<9xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x10xf32>
  return
}

// -----

func.func @gradient_with_other_logarithms(%a: tensor<8xf32>, %b: tensor<8x10xf32>, %c: tensor<8xi64>, %d: tensor<9xf32>) {
  // expected-error@+1 {{expected logarithm of shape [8], got 'tensor<9xf32>'}}
  %r = binade.cross_entropy_grad %a, %b, %c, %a, %d {ignore_index = -100 : i64} : (tensor<8xf32>, tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<9xf32>) -> tensor<8x10xf32>
  return
}

// -----

func.func @weight_of_a_matrix(%a: tensor<8x10xi64>) {
  // expected-error@+2 {{expected one axis of labels, got 'tensor<8x10xi64>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %r = binade.label_weight %a {ignore_index = -100 : i64} : (tensor<8x10xi64>) -> tensor<f32>
  return
}
