// RUN: binade-opt %s --split-input-file --verify-diagnostics

func.func @types(%g: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expects a result of the type of each gradient, magnitude and generator}}
  %x = binade.exchange f32 gradients(%g) {buckets = array<i64: 1>}
      : (tensor<8xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}

// -----

func.func @buckets(%g: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expects buckets for 1 gradients, got 2}}
  %x = binade.exchange f32 gradients(%g) {buckets = array<i64: 2>}
      : (tensor<8xf32>) -> tensor<8xf32>
  return %x : tensor<8xf32>
}

// -----

func.func @empty(%g: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expects buckets of at least one gradient, got 0}}
  %x = binade.exchange f32 gradients(%g) {buckets = array<i64: 1, 0>}
      : (tensor<8xf32>) -> tensor<8xf32>
  return %x : tensor<8xf32>
}

// -----

func.func @sums(%g: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expects 1 fixed-point sums, got 0}}
  %x = binade.exchange exact gradients(%g) {buckets = array<i64: 1>}
      : (tensor<8xf32>) -> tensor<8xf32>
  return %x : tensor<8xf32>
}

// -----

func.func @size(%g: tensor<8xf32>, %s: tensor<24xi32>) -> tensor<8xf32> {
  // expected-error @+1 {{expects a sum of type 'tensor<25xi32>', got 'tensor<24xi32>'}}
  %x = binade.exchange exact gradients(%g) sums(%s) {buckets = array<i64: 1>}
      : (tensor<8xf32>, tensor<24xi32>) -> tensor<8xf32>
  return %x : tensor<8xf32>
}

// -----

func.func @add(%s: tensor<24xi32>, %g: tensor<8xf32>) -> tensor<24xi32> {
  // expected-error @+1 {{expects a sum of type 'tensor<25xi32>', got 'tensor<24xi32>'}}
  %a = binade.exchange_add %s, %g : (tensor<24xi32>, tensor<8xf32>) -> tensor<24xi32>
  return %a : tensor<24xi32>
}
