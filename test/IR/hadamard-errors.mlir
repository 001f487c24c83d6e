// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @c1(%x: tensor<4x24xf32>) {
  // expected-error@+1 {{expects groups of 4, 8, 16, 32, 64 or 128 elements, got 12}}
  %y = binade.hadamard %x {axis = -1 : i64, size = 12 : i64} : (tensor<4x24xf32>) -> tensor<4x24xf32>
  return
}

// -----

func.func @c2(%x: tensor<4x40xf32>) {
  // expected-error@+1 {{expects groups that divide axis -1 of 'tensor<4x40xf32>', got groups of 16}}
  %y = binade.hadamard %x {axis = -1 : i64, size = 16 : i64} : (tensor<4x40xf32>) -> tensor<4x40xf32>
  return
}

// -----

func.func @c2(%x: tensor<64xf32>) {
  // expected-error@+1 {{expects groups that divide axis -2 of 'tensor<64xf32>', got groups of 16}}
  %y = binade.hadamard %x {axis = -2 : i64, size = 16 : i64} : (tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @c3(%x: tensor<4x32xf32>, %s: tensor<16xf32>) {
  // expected-error@+1 {{expects a sign for each of 32 elements, got 'tensor<16xf32>'}}
  %y = binade.hadamard %x signs(%s) {axis = -1 : i64, size = 32 : i64} : (tensor<4x32xf32>, tensor<16xf32>) -> tensor<4x32xf32>
  return
}

// -----

func.func @c4(%x: tensor<4x32xf32>) {
  // expected-error@+1 {{expects a result of the shape of 'tensor<4x32xf32>', got 'tensor<32x4xf32>'}}
  %y = binade.hadamard %x {axis = -1 : i64, size = 32 : i64} : (tensor<4x32xf32>) -> tensor<32x4xf32>
  return
}
