// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @softmax_of_a_scalar(%a: tensor<f32>) {
  // expected-error@+1 {{expected at least one axis, got 'tensor<f32>'}}
  %r = binade.softmax %a : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @softmax_gradient(%a: tensor<4x7xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{expected gradient of shape [4, 8], got 'tensor<4x7xf32>'}}
  %r = binade.softmax_grad %a, %b : (tensor<4x7xf32>, tensor<4x8xf32>) -> tensor<4x7xf32>
  return
}

// -----

func.func @layer_norm_of_a_scalar(%a: tensor<f32>, %b: tensor<f32>) {
  // expected-error@+1 {{expected at least one axis, got 'tensor<f32>'}}
  %r:3 = binade.layer_norm %a, %b {epsilon = 1.0e-5 : f64} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @layer_norm_scale(%a: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{expected 8 parameters, one per entry of the last axis, got 'tensor<4xf32>'}}
  %r:3 = binade.layer_norm %a, %b {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @layer_norm_statistics(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>, %e: tensor<4xf32>) {
  // expected-error@+1 {{expected mean of shape [4], got 'tensor<8xf32>'}}
  %r = binade.layer_norm_grad %a, %b, %c, %d, %e : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_norm_gradient_scale(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error@+1 {{expected scale of shape [8], got 'tensor<4xf32>'}}
  %r = binade.layer_norm_grad %a, %b, %c, %d, %e : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_norm_parameters(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>) {
  // expected-error@+1 {{'binade.layer_norm_param_grad' op inferred type(s) 'tensor<8xf32>', 'tensor<8xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>', 'tensor<4xf32>'}}
  %r:2 = binade.layer_norm_param_grad %a, %b, %c, %d : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @rms_norm_of_a_scalar(%a: tensor<f32>) {
  // expected-error@+1 {{expected at least one axis, got 'tensor<f32>'}}
  %r:2 = binade.rms_norm %a, %a {epsilon = 1.0e-5 : f64} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @rms_norm_scale(%a: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{expected scale of shape [8], got 'tensor<4xf32>'}}
  %r:2 = binade.rms_norm %a, %b {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}

// -----

func.func @rms_norm_statistics(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>) {
  // expected-error@+1 {{expected rstd of shape [4], got 'tensor<8xf32>'}}
  %r = binade.rms_norm_grad %a, %b, %c, %d : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @batch_norm_axis(%a: tensor<4x3x5xf32>) {
  // expected-error@+1 {{axis 3 is not one of 'tensor<4x3x5xf32>'}}
  %r:2 = binade.batch_norm_statistics %a {axis = 3 : i64} : (tensor<4x3x5xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @batch_norm_channels(%a: tensor<4x3x5xf32>, %b: tensor<3xf32>, %c: tensor<3xf32>, %d: tensor<3xf32>, %e: tensor<5xf32>) {
  // expected-error@+1 {{expected one number per channel, 'tensor<3xf32>', got 'tensor<5xf32>'}}
  %r = binade.batch_norm %a, %b, %c, %d, %e {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5xf32>) -> tensor<4x3x5xf32>
  return
}

// -----

func.func @batch_norm_gradient(%a: tensor<4x3xf32>, %b: tensor<4x3x5xf32>, %c: tensor<3xf32>, %d: tensor<3xf32>, %e: tensor<3xf32>, %f: tensor<3xf32>, %g: tensor<3xf32>) {
  // expected-error@+1 {{expected gradient of shape [4, 3, 5], got 'tensor<4x3xf32>'}}
  %r = binade.batch_norm_grad %a, %b, %c, %d, %e, %f, %g {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x3xf32>, tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @batch_norm_parameters(%a: tensor<4x3x5xf32>, %b: tensor<4x3x5xf32>, %c: tensor<3xf32>, %d: tensor<3xf32>) {
  // expected-error@+1 {{expected one number per channel, 'tensor<5xf32>', got 'tensor<3xf32>'}}
  %r:2 = binade.batch_norm_param_grad %a, %b, %c, %d {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x3x5xf32>, tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<5xf32>, tensor<5xf32>)
  return
}
