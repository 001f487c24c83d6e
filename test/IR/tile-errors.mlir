// RUN: binade-opt %s -split-input-file -verify-diagnostics

func.func @uneven(%x: tensor<7xf32>) -> tensor<7xf32> {
  // expected-error@+1 {{cannot cut operand 0 of type 'tensor<7xf32>' into 2 pieces}}
  %y = binade.tile 2 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<3xf32>):
    binade.yield %piece : tensor<3xf32>
  } : (tensor<7xf32>) -> tensor<7xf32>
  return %y : tensor<7xf32>
}

// -----

func.func @too_many_slices(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{slices 2 operands, but has 1}}
  %y = binade.tile 2 slices 2 joins 1 (%x) {
  ^bb0(%piece: tensor<4xf32>):
    binade.yield %piece : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @other_piece(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expects operand 0 inside to be 'tensor<4xf32>', got 'tensor<2xf32>'}}
  %y = binade.tile 2 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<2xf32>):
    binade.yield %piece : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @missing_result(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{has 1 results, its body 0}}
  %y = binade.tile 2 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<4xf32>):
    binade.yield
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @narrow_sum(%x: tensor<8xbf16>) -> tensor<4xbf16> {
  // expected-error@+1 {{sums only f32 results, got 'tensor<4xbf16>'}}
  %y = binade.tile 2 slices 1 joins 0 (%x) {
  ^bb0(%piece: tensor<4xbf16>):
    binade.yield %piece : tensor<4xbf16>
  } : (tensor<8xbf16>) -> tensor<4xbf16>
  return %y : tensor<4xbf16>
}

// -----

func.func @no_region(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{has a remainder of 2, but no region for it}}
  %y = binade.tile 2 of 3 remainder 2 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<3xf32>):
    binade.yield %piece : tensor<3xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @no_remainder(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{has a remainder of 0, but a region for it}}
  %y = binade.tile 2 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<4xf32>):
    binade.yield %piece : tensor<4xf32>
  } remainder {
  ^bb0(%piece: tensor<4xf32>):
    binade.yield %piece : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @large_remainder(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{has a remainder of 4, not less than a piece of 2}}
  %y = binade.tile 2 of 2 remainder 4 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<2xf32>):
    binade.yield %piece : tensor<2xf32>
  } remainder {
  ^bb0(%piece: tensor<4xf32>):
    binade.yield %piece : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @uneven_remainder(%x: tensor<9xf32>) -> tensor<9xf32> {
  // expected-error@+1 {{cannot cut operand 0 of type 'tensor<9xf32>' into 2 pieces of 3/8 and a last one of 2/8}}
  %y = binade.tile 2 of 3 remainder 2 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<3xf32>):
    binade.yield %piece : tensor<3xf32>
  } remainder {
  ^bb0(%piece: tensor<2xf32>):
    binade.yield %piece : tensor<2xf32>
  } : (tensor<9xf32>) -> tensor<9xf32>
  return %y : tensor<9xf32>
}

// -----

func.func @other_remainder(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expects operand 0 inside to be 'tensor<2xf32>', got 'tensor<3xf32>'}}
  %y = binade.tile 2 of 3 remainder 2 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<3xf32>):
    binade.yield %piece : tensor<3xf32>
  } remainder {
  ^bb0(%piece: tensor<3xf32>):
    binade.yield %piece : tensor<3xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
