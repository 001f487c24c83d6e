// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @heads_differ(%a: tensor<2x5x8xf32>, %b: tensor<3x5x8xf32>, %c: tensor<2x5x8xf32>) {
  // expected-error@+1 {{expected query [..., N, D], key [..., K, D] and value [..., K, E], got 'tensor<2x5x8xf32>', 'tensor<3x5x8xf32>' and 'tensor<2x5x8xf32>'}}
  %r:2 = binade.attention %a, %b, %c {scale = 0.5 : f64} : (tensor<2x5x8xf32>, tensor<3x5x8xf32>, tensor<2x5x8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5xf32>)
  return
}

// -----

func.func @keys_and_values_differ(%a: tensor<5x8xf32>, %b: tensor<7x8xf32>, %c: tensor<6x8xf32>) {
  // expected-error@+1 {{got 'tensor<5x8xf32>', 'tensor<7x8xf32>' and 'tensor<6x8xf32>'}}
  %r:2 = binade.attention %a, %b, %c {scale = 0.5 : f64} : (tensor<5x8xf32>, tensor<7x8xf32>, tensor<6x8xf32>) -> (tensor<5x8xf32>, tensor<5xf32>)
  return
}

// -----

func.func @causal_is_square(%a: tensor<5x8xf32>, %b: tensor<7x8xf32>, %c: tensor<7x8xf32>) {
  // expected-error@+1 {{causal attention needs as many queries as keys, got 5 and 7}}
  %r:2 = binade.attention %a, %b, %c {scale = 0.5 : f64, causal} : (tensor<5x8xf32>, tensor<7x8xf32>, tensor<7x8xf32>) -> (tensor<5x8xf32>, tensor<5xf32>)
  return
}

// -----

func.func @gradient_shape(%a: tensor<5x7xf32>, %b: tensor<5x8xf32>, %c: tensor<6x8xf32>, %d: tensor<6x8xf32>, %e: tensor<5x8xf32>, %f: tensor<5xf32>) {
  // expected-error@+1 {{expected gradient of shape [5, 8], got 'tensor<5x7xf32>'}}
  %r:3 = binade.attention_grad %a, %b, %c, %d, %e, %f {scale = 0.5 : f64} : (tensor<5x7xf32>, tensor<5x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<5x8xf32>, tensor<5xf32>) -> (tensor<5x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>)
  return
}

// -----

func.func @gradient_lse(%a: tensor<5x8xf32>, %b: tensor<5x8xf32>, %c: tensor<6x8xf32>, %d: tensor<6x8xf32>, %e: tensor<5x8xf32>, %f: tensor<6xf32>) {
  // expected-error@+1 {{expected lse of shape [5], got 'tensor<6xf32>'}}
  %r:3 = binade.attention_grad %a, %b, %c, %d, %e, %f {scale = 0.5 : f64} : (tensor<5x8xf32>, tensor<5x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<5x8xf32>, tensor<6xf32>) -> (tensor<5x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>)
  return
}

// -----

func.func @only_keys_are_shared(%a: tensor<2x3x5x8xf32>, %b: tensor<2x1x5x8xf32>, %c: tensor<2x3x5x8xf32>) {
  // expected-error@+1 {{got 'tensor<2x3x5x8xf32>', 'tensor<2x1x5x8xf32>' and 'tensor<2x3x5x8xf32>'}}
  %r:2 = binade.attention %a, %b, %c {scale = 0.5 : f64} : (tensor<2x3x5x8xf32>, tensor<2x1x5x8xf32>, tensor<2x3x5x8xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @another_axis_is_shared(%a: tensor<2x3x5x8xf32>, %b: tensor<1x3x5x8xf32>) {
  // expected-error@+1 {{got 'tensor<2x3x5x8xf32>', 'tensor<1x3x5x8xf32>' and 'tensor<1x3x5x8xf32>'}}
  %r:2 = binade.attention %a, %b, %b {scale = 0.5 : f64} : (tensor<2x3x5x8xf32>, tensor<1x3x5x8xf32>, tensor<1x3x5x8xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @bias_of_other_keys(%a: tensor<2x5x8xf32>, %b: tensor<2x1x8xf32>) {
  // expected-error@+1 {{expected biases and a mask that can be broadcast to [2, 5, 5], got 'tensor<2x1x8xf32>'}}
  %r:2 = binade.attention %a, %a, %a biases(%b) {scale = 0.5 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x1x8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5xf32>)
  return
}

// -----

func.func @mask_of_other_rank(%a: tensor<2x5x8xf32>, %b: tensor<5xi1>) {
  // expected-error@+1 {{expected biases and a mask that can be broadcast to [2, 5, 5], got 'tensor<5xi1>'}}
  %r:2 = binade.attention %a, %a, %a mask(%b) {scale = 0.5 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<5xi1>) -> (tensor<2x5x8xf32>, tensor<2x5xf32>)
  return
}

// -----

func.func @negative_softcap(%a: tensor<2x5x8xf32>, %b: tensor<f32>) {
  // expected-error@+1 {{expects a finite softcap of at least 0, got -1}}
  %r:2 = binade.attention %a, %a, %a  {scale = 0.5 : f64, softcap = -1.0 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5xf32>)
  return
}

// -----

func.func @ratio_without_rng(%a: tensor<2x5x8xf32>, %b: tensor<f32>) {
  // expected-error@+1 {{expects no ratio or stream without rng}}
  %r:2 = binade.attention %a, %a, %a  {scale = 0.5 : f64, ratio = 0.1 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5xf32>)
  return
}

// -----

func.func @large_ratio(%a: tensor<2x5x8xf32>, %b: tensor<2xi64>) {
  // expected-error@+1 {{expects a ratio in [0, 1], got 1.5}}
  %r:2 = binade.attention %a, %a, %a rng(%b) {scale = 0.5 : f64, ratio = 1.5 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2xi64>) -> (tensor<2x5x8xf32>, tensor<2x5xf32>)
  return
}
