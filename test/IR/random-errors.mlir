// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @rng_is_seed_and_step(%a: tensor<8xf32>, %b: tensor<3xi64>) {
  // expected-error@+1 {{operand #1 must be tensor<2xi64>, seed and number of steps begun, but got 'tensor<3xi64>'}}
  %r = binade.dropout %a, %b {ratio = 0.1 : f64, stream = 0 : i64} : (tensor<8xf32>, tensor<3xi64>) -> tensor<8xf32>
  return
}

// -----

func.func @ratio_above_one(%a: tensor<8xf32>, %b: tensor<2xi64>) {
  // expected-error@+1 {{'binade.dropout' op expects a ratio in [0, 1], got 1.5}}
  %r = binade.dropout %a, %b {ratio = 1.5 : f64, stream = 0 : i64} : (tensor<8xf32>, tensor<2xi64>) -> tensor<8xf32>
  return
}

// -----

func.func @ratio_is_nan(%a: tensor<8xf32>, %b: tensor<2xi64>) {
  // expected-error@+1 {{'binade.dropout_grad' op expects a ratio in [0, 1], got}}
  %r = binade.dropout_grad %a, %b {ratio = 0x7FF8000000000000 : f64, stream = 0 : i64} : (tensor<8xf32>, tensor<2xi64>) -> tensor<8xf32>
  return
}

// -----

func.func @negative_stream(%a: tensor<8xf32>, %b: tensor<2xi64>) {
  // expected-error@+1 {{'binade.dropout' op expects a stream of 32 bits, got -1}}
  %r = binade.dropout %a, %b {ratio = 0.1 : f64, stream = -1 : i64} : (tensor<8xf32>, tensor<2xi64>) -> tensor<8xf32>
  return
}

// -----

func.func @stream_of_33_bits(%a: tensor<8xi64>, %b: tensor<8xi64>, %c: tensor<8xi64>) {
  // expected-error@+1 {{'binade.random_uniform' op expects a stream of 32 bits, got 4294967296}}
  %r = binade.random_uniform %a, %b, %c {stream = 4294967296 : i64} : (tensor<8xi64>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xf32>
  return
}

// -----

func.func @three_per_counter(%a: tensor<8xi64>, %b: tensor<8xi64>, %c: tensor<8xi64>) {
  // expected-error@+1 {{'binade.random_uniform' op expects 1 or 4 elements per counter, got 3}}
  %r = binade.random_uniform %a, %b, %c {per_counter = 3 : i64, stream = 0 : i64} : (tensor<8xi64>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xf32>
  return
}

// -----

func.func @one_seed_for_all(%a: tensor<8xi64>, %b: tensor<i64>, %c: tensor<i64>) {
  // expected-error@+1 {{'binade.random_uniform' op requires the same shape for all operands and results}}
  %r = binade.random_uniform %a, %b, %c {stream = 0 : i64} : (tensor<8xi64>, tensor<i64>, tensor<i64>) -> tensor<8xf32>
  return
}
