// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @axis_beyond_rank(%a: tensor<2x3x4xf32>) {
  // expected-error@+1 {{axis 3 is out of range: 'tensor<2x3x4xf32>' has rank 3}}
  %r = binade.reduce_sum %a {axes = array<i64: 0, 3>} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @axes_descend(%a: tensor<2x3x4xf32>) {
  // expected-error@+1 {{expected ascending axes, got [1, 0]}}
  %r = binade.reduce_max %a {axes = array<i64: 1, 0>} : (tensor<2x3x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @negative_axis(%a: tensor<2x3x4xf32>) {
  // expected-error@+1 {{axis -1 is out of range: 'tensor<2x3x4xf32>' has rank 3}}
  %r = binade.reduce_mean %a {axes = array<i64: -1>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @axes_are_kept(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{'binade.reduce_sum' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2x1xf32>'}}
  %r = binade.reduce_sum %a {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  return
}
