// RUN: binade-opt %s --split-input-file --binade-remove-imported-backward | FileCheck %s

// The gradient of sum (w x)^2, as an exporter may write it.

// CHECK-LABEL: func.func @forward(
// CHECK-SAME:      -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>})
// CHECK-SAME:      binade.backward = "derived anew: the graph's has the same gradients"
// CHECK:         %[[LOSS:.*]] = binade.reduce_sum
// CHECK-NEXT:    return %[[LOSS]]
func.func @gradient(
    %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
    %x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %y = binade.mul %w, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %square = binade.mul %y, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = binade.reduce_sum %square {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
  %seeds = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>} : (tensor<f32>) -> tensor<4xf32>
  %dy = binade.mul %y, %seeds {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %twice = binade.add %dy, %dy {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %dw = binade.mul %x, %twice {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %dw : tensor<f32>, tensor<4xf32>
}

// -----

// An epsilon that the forward pass does not have.

// CHECK-LABEL: func.func @gradient(
// CHECK-SAME:      binade.backward = "the graph's own: its gradient of 'w' differs from autodiff's by {{.*}}, whose norm is {{.*}}"
// CHECK:         %[[DW:.*]] = binade.div
// CHECK-NEXT:    return %{{.*}}, %[[DW]]
func.func @gradient(
    %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %size = binade.abs %w : (tensor<4xf32>) -> tensor<4xf32>
  %loss = binade.reduce_sum %size {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %epsilon = binade.constant dense<1.0e-8> : tensor<4xf32>
  %shifted = binade.add %size, %epsilon {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
  %seeds = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>} : (tensor<f32>) -> tensor<4xf32>
  %dy = binade.mul %w, %seeds {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %dw = binade.div %dy, %shifted {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %dw : tensor<f32>, tensor<4xf32>
}

// -----

// A gradient that is clipped.

// CHECK-LABEL: func.func @gradient(
// CHECK-SAME:      binade.backward = "the graph's own: it is not linear in a seed"
func.func @gradient(
    %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %square = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = binade.reduce_sum %square {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %twice = binade.add %w, %w {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %limit = binade.constant dense<1.0> : tensor<4xf32>
  %dw = binade.min %twice, %limit {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %dw : tensor<f32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @gradient(
// CHECK-SAME:      binade.backward = "the graph's own: it has formats other than f32"
func.func @gradient(
    %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %square = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = binade.reduce_sum %square {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %narrow = binade.cast %w {binade.phase = #binade.phase<backward>} : (tensor<4xf32>) -> tensor<4xf16>
  %twice = binade.add %narrow, %narrow {binade.phase = #binade.phase<backward>} : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  %dw = binade.cast %twice {binade.phase = #binade.phase<backward>} : (tensor<4xf16>) -> tensor<4xf32>
  return %loss, %dw : tensor<f32>, tensor<4xf32>
}

// -----

// The norm of the gradient is a result too.

// CHECK-LABEL: func.func @gradient(
// CHECK-SAME:      binade.backward = "the graph's own: results other than gradients depend on it"
func.func @gradient(
    %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4xf32> {binade.name = "w", binade.role = #binade.role<gradient>},
        tensor<f32> {binade.name = "squares", binade.role = #binade.role<output>}) {
  %square = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = binade.reduce_sum %square {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
  %seeds = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>} : (tensor<f32>) -> tensor<4xf32>
  %dy = binade.mul %w, %seeds {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %dw = binade.add %dy, %dy {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %squares = binade.mul %dw, %dw {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %sum = binade.reduce_sum %squares {axes = array<i64: 0>, binade.phase = #binade.phase<backward>} : (tensor<4xf32>) -> tensor<f32>
  return %loss, %dw, %sum : tensor<f32>, tensor<4xf32>, tensor<f32>
}
