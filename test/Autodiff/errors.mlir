// RUN: binade-opt %s --binade-build-gradient --verify-diagnostics --split-input-file

// expected-error@+1 {{expected a function '@forward' to differentiate}}
module {
  func.func @other() {
    return
  }
}

// -----

// expected-error@+2 {{has no loss: none of its outputs is called 'loss'}}
// expected-note@+1 {{--loss 'cross_entropy(OUTPUT, LABELS)' or 'mse(OUTPUT, TARGET)' adds a loss to an output, --loss-output NAME uses an output as the loss}}
func.func @forward(%w: tensor<f32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "accuracy", binade.role = #binade.role<metric>}) {
  return %w : tensor<f32>
}

// -----

// expected-error@+2 {{has no loss: output 'loss' has to have one floating-point element, but it is f32 [8]}}
// expected-note@+1 {{; outputs are 'loss' f32 [8], 'y' f32 [8]}}
func.func @forward(%w: tensor<8xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<8xf32> {binade.name = "loss", binade.role = #binade.role<output>},
        tensor<8xf32> {binade.name = "y", binade.role = #binade.role<output>}) {
  return %w, %w : tensor<8xf32>, tensor<8xf32>
}

// -----

// expected-error@+1 {{loss is f32 [8], expected one element}}
func.func @forward(%w: tensor<8xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<8xf32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  return %w : tensor<8xf32>
}

// -----

func.func @forward(%w: tensor<f32> {binade.name = "w", binade.role = #binade.role<parameter>},
                   // expected-warning@+1 {{the loss does not depend on parameter 'v': it is not trained}}
                   %v: tensor<f32> {binade.name = "v", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  return %w : tensor<f32>
}

// -----

func.func @forward(%w: tensor<f32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  // expected-error@+1 {{the loss depends on parameters through 'math.absf', which has no derivative}}
  %loss = math.absf %w : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The result for the gradient, the logarithm of the sum, has no gradient itself.
func.func @forward(%w: tensor<4x8xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                   %labels: tensor<4xi64> {binade.name = "labels", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  // expected-error@+1 {{the loss depends on parameters through result 2 of 'binade.cross_entropy', which has no derivative}}
  %losses, %maximum, %logarithm = binade.cross_entropy %w, %labels {ignore_index = -100 : i64}
    : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %loss = binade.reduce_sum %logarithm {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A gradient op in the forward pass has no gradient of its own.
func.func @forward(
    %x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
    %dy: tensor<4xf32> {binade.name = "dy", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  // expected-error@+2 {{the loss depends on parameters through 'binade.relu_grad', which has no derivative}}
  // expected-note@+1 {{gradients are differentiated only once: ops of gradients, quantized elements, scales and statistics have no derivative}}
  %dx = binade.relu_grad %dy, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = binade.reduce_sum %dx {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
