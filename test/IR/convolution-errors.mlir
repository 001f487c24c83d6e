// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @no_spatial_axis(%a: tensor<2x4xf32>, %b: tensor<6x4xf32>) {
  // expected-error@+1 {{'binade.conv' op expects input, weight and output of equal rank 3, 4 or 5, got 'tensor<2x4xf32>', 'tensor<6x4xf32>' and 'tensor<2x6xf32>'}}
  %r = binade.conv %a, %b {strides = array<i64: 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x4xf32>, tensor<6x4xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @list_too_long(%a: tensor<2x4x9xf32>, %b: tensor<6x4x3xf32>) {
  // expected-error@+1 {{'binade.conv' op expects 1 numbers per geometry list, got 2}}
  %r = binade.conv %a, %b {strides = array<i64: 1, 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @stride_zero(%a: tensor<2x4x9xf32>, %b: tensor<6x4x3xf32>) {
  // expected-error@+1 {{'binade.conv' op expects positive strides, dilations and groups, got [0], [1] and 1}}
  %r = binade.conv %a, %b {strides = array<i64: 0>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @dilation_too_large(%a: tensor<2x4x9xf32>, %b: tensor<6x4x3xf32>) {
  // expected-error@+1 {{expects positive strides, dilations and groups, got [1], [9223372036854775807] and 1}}
  %r = binade.conv %a, %b {strides = array<i64: 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 9223372036854775807>, groups = 1 : i64} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @negative_padding(%a: tensor<2x4x9xf32>, %b: tensor<6x4x3xf32>) {
  // expected-error@+1 {{'binade.conv' op expects padding of at least 0, got [-1] and [0]}}
  %r = binade.conv %a, %b {strides = array<i64: 1>, padding_low = array<i64: -1>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @channels_differ(%a: tensor<2x4x9xf32>, %b: tensor<6x4x3xf32>) {
  // expected-error@+1 {{'binade.conv' op weight 'tensor<6x4x3xf32>' does not fit 4 channels in 2 groups}}
  %r = binade.conv %a, %b {strides = array<i64: 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 2 : i64} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @groups_do_not_divide(%a: tensor<2x4x9xf32>, %b: tensor<6x1x3xf32>) {
  // expected-error@+1 {{'binade.conv' op weight 'tensor<6x1x3xf32>' does not fit 4 channels in 4 groups}}
  %r = binade.conv %a, %b {strides = array<i64: 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 4 : i64} : (tensor<2x4x9xf32>, tensor<6x1x3xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @kernel_too_long(%a: tensor<2x4x9xf32>, %b: tensor<6x4x3xf32>) {
  // expected-error@+1 {{'binade.conv' op kernel reaches 11 elements along spatial axis 0, the padded input has 9}}
  %r = binade.conv %a, %b {strides = array<i64: 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 5>, groups = 1 : i64} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @wrong_output(%a: tensor<2x4x9xf32>, %b: tensor<6x4x3xf32>) {
  // expected-error@+1 {{'binade.conv' op output is 'tensor<2x6x7xf32>', expected shape 'tensor<2x6x4xf32>'}}
  %r = binade.conv %a, %b {strides = array<i64: 2>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @wrong_bias(%a: tensor<2x4x9xf32>, %b: tensor<6x4x3xf32>, %c: tensor<4xf32>) {
  // expected-error@+1 {{'binade.conv' op expects a bias of 6 elements, got 'tensor<4xf32>'}}
  %r = binade.conv %a, %b, %c {strides = array<i64: 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>, tensor<4xf32>) -> tensor<2x6x7xf32>
  return
}

// -----

func.func @wrong_input_gradient(%a: tensor<2x6x7xf32>, %b: tensor<6x4x3xf32>) {
  // expected-error@+1 {{'binade.conv_input_grad' op output is 'tensor<2x6x7xf32>', expected shape 'tensor<2x6x6xf32>'}}
  %r = binade.conv_input_grad %a, %b {strides = array<i64: 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x6x7xf32>, tensor<6x4x3xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

func.func @wrong_weight_gradient(%a: tensor<2x6x7xf32>, %b: tensor<2x4x9xf32>) {
  // expected-error@+1 {{'binade.conv_weight_grad' op weight 'tensor<6x3x3xf32>' does not fit 4 channels in 1 groups}}
  %r = binade.conv_weight_grad %a, %b {strides = array<i64: 1>, padding_low = array<i64: 0>, padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x6x7xf32>, tensor<2x4x9xf32>) -> tensor<6x3x3xf32>
  return
}
