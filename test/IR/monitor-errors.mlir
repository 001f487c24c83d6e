// RUN: binade-opt %s --split-input-file --verify-diagnostics

func.func @wide(%x: tensor<4xf64>) -> tensor<f32> {
  // expected-error @+1 {{computes in f32, which cannot represent 'f64'}}
  %amax = binade.statistics <amax> %x : (tensor<4xf64>) -> tensor<f32>
  return %amax : tensor<f32>
}

// -----

func.func @type(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{inferred type(s) 'tensor<i64>' are incompatible with return type(s) of operation 'tensor<f32>'}}
  %zeros = binade.statistics <zeros> %x : (tensor<4xf32>) -> tensor<f32>
  return %zeros : tensor<f32>
}
