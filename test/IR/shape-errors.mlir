// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @iota_axis() {
  // expected-error@+1 {{'binade.iota' op axis 2 is not one of 'tensor<2x3xi64>'}}
  %0 = binade.iota {axis = 2 : i64} : tensor<2x3xi64>
  return
}

// -----

func.func @reshape_loses_elements(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{'binade.reshape' op expects as many elements on both sides, got 'tensor<2x3xf32>' and 'tensor<5xf32>'}}
  %r = binade.reshape %a : (tensor<2x3xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @movement_changes_format(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{'binade.reshape' op moves elements of 'tensor<2x3xf32>' to 'tensor<6xbf16>'}}
  %r = binade.reshape %a : (tensor<2x3xf32>) -> tensor<6xbf16>
  return
}

// -----

func.func @axes_twice(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{'binade.transpose' op expects a permutation of 2 axes, got [0, 0]}}
  %r = binade.transpose %a {permutation = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @transpose_result(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{'binade.transpose' op of 'tensor<2x3xf32>' by [1, 0] is not 'tensor<2x3xf32>'}}
  %r = binade.transpose %a {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_axes(%a: tensor<3xf32>) {
  // expected-error@+1 {{'binade.broadcast' op expects one axis per axis of 'tensor<3xf32>', got [0, 1]}}
  %r = binade.broadcast %a {axes = array<i64: 0, 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_axes_descend(%a: tensor<3x2xf32>) {
  // expected-error@+1 {{'binade.broadcast' op expects ascending axes of 'tensor<2x3xf32>', got [1, 0]}}
  %r = binade.broadcast %a {axes = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_length(%a: tensor<3xf32>) {
  // expected-error@+1 {{'binade.broadcast' op cannot copy an axis of length 3 to axis 0 of 'tensor<2x3xf32>'}}
  %r = binade.broadcast %a {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_leaves(%a: tensor<6xf32>) {
  // expected-error@+1 {{'binade.slice' op box leaves axis 0 of length 6: offset 1, stride 2, size 4}}
  %r = binade.slice %a {offsets = array<i64: 1>, strides = array<i64: 2>} : (tensor<6xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @slice_overflows(%a: tensor<6xf32>) {
  // expected-error@+1 {{'binade.slice' op box leaves axis 0 of length 6: offset 0, stride 4611686018427387904, size 5}}
  %r = binade.slice %a {offsets = array<i64: 0>, strides = array<i64: 4611686018427387904>} : (tensor<6xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @slice_negative(%a: tensor<6xf32>) {
  // expected-error@+1 {{'binade.slice' op box leaves axis 0 of length 6: offset -1, stride 1, size 2}}
  %r = binade.slice %a {offsets = array<i64: -1>, strides = array<i64: 1>} : (tensor<6xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @pad_leaves(%a: tensor<3xf32>) {
  // expected-error@+1 {{'binade.pad' op box leaves axis 0 of length 6: offset 4, stride 1, size 3}}
  %r = binade.pad %a {offsets = array<i64: 4>, strides = array<i64: 1>} : (tensor<3xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @slice_axes(%a: tensor<6x2xf32>) {
  // expected-error@+1 {{'binade.slice' op expects offset, stride and size for each of 2 axes}}
  %r = binade.slice %a {offsets = array<i64: 0>, strides = array<i64: 1>} : (tensor<6x2xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @concat_axis(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{'binade.concat' op expects operands and one of 1 axes, got axis 1}}
  %r = binade.concat %a, %b {axis = 1 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @concat_length(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{'binade.concat' op operands have 5 entries along axis 0, the result 6}}
  %r = binade.concat %a, %b {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @concat_shapes(%a: tensor<2x4xf32>, %b: tensor<3x5xf32>) {
  // expected-error@+1 {{'binade.concat' op cannot join 'tensor<3x5xf32>' to 'tensor<5x4xf32>' along axis 0}}
  %r = binade.concat %a, %b {axis = 0 : i64} : (tensor<2x4xf32>, tensor<3x5xf32>) -> tensor<5x4xf32>
  return
}
