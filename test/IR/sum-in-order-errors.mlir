// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @c1(%x: tensor<4x24xf32>) {
  // expected-error@+1 {{expects an axis below 2, the rank of 'tensor<4x24xf32>', got 2}}
  %y = binade.sum_in_order %x {axis = 2 : i64} : (tensor<4x24xf32>) -> tensor<4x24xf32>
  return
}

// -----

func.func @c1(%x: tensor<4x0xf32>) {
  // expected-error@+1 {{expects 1 to 128 elements along axis 1, got 'tensor<4x0xf32>'}}
  %y = binade.sum_in_order %x {axis = 1 : i64} : (tensor<4x0xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @c1(%x: tensor<129x4xf32>) {
  // expected-error@+1 {{expects 1 to 128 elements along axis 0, got 'tensor<129x4xf32>'}}
  %y = binade.sum_in_order %x {axis = 0 : i64, by_halves} : (tensor<129x4xf32>) -> tensor<1x4xf32>
  return
}

// -----

func.func @c2(%x: tensor<4x16xf32>) {
  // expected-error@+1 {{expects a result of type 'tensor<4x1xf32>', got 'tensor<4xf32>'}}
  %y = binade.sum_in_order %x {axis = 1 : i64} : (tensor<4x16xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f32(%x: tensor<4x16xbf16>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 32-bit float values, but got 'tensor<4x16xbf16>'}}
  %y = binade.sum_in_order %x {axis = 1 : i64} : (tensor<4x16xbf16>) -> tensor<4x1xf32>
  return
}
