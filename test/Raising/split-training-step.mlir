// RUN: binade-opt %s --split-input-file --binade-split-training-step | FileCheck %s

// Which result replaces which argument follows from the arguments that each result depends
// on: names in a foreign file have no conventions.

// CHECK-LABEL: func.func @gradient(
// CHECK-SAME:    %[[W:[^:]*]]: tensor<4x8xf32> {binade.name = "b", binade.optimizer = @exported, binade.role = #binade.role<parameter>}
// CHECK-SAME:    %[[X:[^:]*]]: tensor<2x4xf32> {binade.name = "c", binade.role = #binade.role<batch>}
// CHECK-SAME:    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
// CHECK-SAME:        tensor<4x8xf32> {binade.name = "b", binade.role = #binade.role<gradient>})
// CHECK:         binade.matmul %[[X]], %[[W]] :
// CHECK:         %[[LOSS:.*]] = binade.reduce_sum
// CHECK:         %[[DW:.*]] = binade.matmul {{.*}}binade.phase = #binade.phase<backward>
// CHECK:         return %[[LOSS]], %[[DW]]

// CHECK:       binade.optimizer @exported {hypers = [], states = [#binade.setting<"state0" = 0.000000e+00 : f64>]}
// CHECK:       func.func private @exported.scalars(%arg0: i64) {
// CHECK:       func.func private @exported.update(%[[P:.*]]: f32, %[[G:.*]]: f32, %[[M:.*]]: f32) -> (f32, f32) {
// CHECK:         %[[KEPT:.*]] = arith.mulf %[[M]], %
// CHECK:         %[[NEW:.*]] = arith.addf %[[KEPT]], %[[G]]
// CHECK:         %[[CHANGE:.*]] = arith.mulf %[[NEW]], %
// CHECK:         %[[Q:.*]] = arith.subf %[[P]], %[[CHANGE]]
// CHECK:         return %[[Q]], %[[NEW]]
func.func @forward(%m: tensor<4x8xf32> {binade.name = "a", binade.role = #binade.role<batch>},
                   %w: tensor<4x8xf32> {binade.name = "b", binade.role = #binade.role<batch>},
                   %x: tensor<2x4xf32> {binade.name = "c", binade.role = #binade.role<batch>})
    -> (tensor<4x8xf32> {binade.name = "d", binade.role = #binade.role<output>},
        tensor<f32> {binade.name = "e", binade.role = #binade.role<output>},
        tensor<4x8xf32> {binade.name = "f", binade.role = #binade.role<output>}) {
  %factor = binade.constant dense<9.000000e-01> : tensor<4x8xf32>
  %rate = binade.constant dense<1.000000e-02> : tensor<4x8xf32>
  %two = binade.constant dense<2.000000e+00> : tensor<2x8xf32>
  %y = binade.matmul %x, %w : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %square = binade.mul %y, %y : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %loss = binade.reduce_sum %square {axes = array<i64: 0, 1>} : (tensor<2x8xf32>) -> tensor<f32>
  %dy = binade.mul %y, %two : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %g = binade.matmul %x, %dy {transpose_lhs} : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %kept = binade.mul %m, %factor : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m_new = binade.add %kept, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %change = binade.mul %m_new, %rate : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %w_new = binade.sub %w, %change : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %w_new, %loss, %m_new : tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>
}

// -----

// An elementwise function of the batch in addition to a loss is an output: no update reads it.

// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    binade.name = "d", binade.role = #binade.role<output>
func.func @forward(%x: tensor<2x4xf32> {binade.name = "c", binade.role = #binade.role<batch>})
    -> (tensor<2x4xf32> {binade.name = "d", binade.role = #binade.role<output>},
        tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = binade.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  return %y, %loss : tensor<2x4xf32>, tensor<f32>
}

// -----

// If an op in addition to its update reads a state, the step cannot be split.

// CHECK-LABEL: func.func @forward(
// CHECK-NOT:   binade.optimizer
func.func @forward(%m: tensor<4xf32> {binade.name = "a", binade.role = #binade.role<batch>},
                   %w: tensor<4xf32> {binade.name = "b", binade.role = #binade.role<batch>},
                   %x: tensor<2x4xf32> {binade.name = "c", binade.role = #binade.role<batch>})
    -> (tensor<4xf32> {binade.name = "d", binade.role = #binade.role<output>},
        tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4xf32> {binade.name = "f", binade.role = #binade.role<output>},
        tensor<2x4xf32> {binade.name = "g", binade.role = #binade.role<output>}) {
  %wide = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %x, %wide : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  %g = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<4xf32>
  %m_new = binade.add %m, %g : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %w_new = binade.sub %w, %m_new : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %shown = binade.broadcast %m {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  return %w_new, %loss, %m_new, %shown : tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<2x4xf32>
}

// -----

// The gradient of a loss with the square of a parameter is a function of the parameter
// and of one other value, but keeps little of it.

// CHECK-LABEL: func.func @forward(
// CHECK-NOT:   binade.optimizer
func.func @forward(%w: tensor<4xf32> {binade.name = "b", binade.role = #binade.role<batch>},
                   %x: tensor<2x4xf32> {binade.name = "c", binade.role = #binade.role<batch>})
    -> (tensor<4xf32> {binade.name = "d", binade.role = #binade.role<output>},
        tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %small = binade.constant dense<1.000000e-02> : tensor<4xf32>
  %wide = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %x, %wide : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  %g = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<4xf32>
  %decay = binade.mul %w, %small : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %all = binade.add %g, %decay : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %all, %loss : tensor<4xf32>, tensor<f32>
}

// -----

// Updates read the count of steps, but not counters of batches. An expression that an
// update reads twice is the gradient as it is, even if it adds 0.

// CHECK-LABEL: func.func @gradient(
// CHECK-SAME:    binade.name = "w", binade.optimizer = @exported, binade.role = #binade.role<parameter>
// CHECK-SAME:    binade.name = "seen", binade.role = #binade.role<buffer>
// CHECK-SAME:    binade.name = "x", binade.role = #binade.role<batch>
// CHECK-SAME:    binade.name = "seen", binade.role = #binade.role<buffer>
// CHECK:         %[[DW:.*]] = binade.reduce_sum %{{.*}} {axes = array<i64: 0>, binade.phase
// CHECK:         %[[SUM:.*]] = binade.mul %[[DW]], %
// CHECK:         %[[G:.*]] = binade.add %{{.*}}, %[[SUM]]
// CHECK:         return {{.*}}%[[G]]
// CHECK:       func.func private @exported.scalars(%[[T:.*]]: i64) -> f64
// CHECK:         %[[STEP:.*]] = arith.sitofp %[[T]] : i64 to f32
// CHECK:         math.powf %{{.*}}, %[[STEP]]
func.func @forward(%seen: tensor<i64> {binade.name = "seen", binade.role = #binade.role<batch>},
                   %m: tensor<4xf32> {binade.name = "m", binade.role = #binade.role<batch>},
                   %w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<batch>},
                   %step: tensor<f32> {binade.name = "step", binade.role = #binade.role<batch>},
                   %x: tensor<2x4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<4xf32> {binade.name = "d", binade.role = #binade.role<output>},
        tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4xf32> {binade.name = "f", binade.role = #binade.role<output>},
        tensor<f32> {binade.name = "g", binade.role = #binade.role<output>},
        tensor<i64> {binade.name = "h", binade.role = #binade.role<output>}) {
  %one = binade.constant dense<1> : tensor<i64>
  %unit = binade.constant dense<1.000000e+00> : tensor<f32>
  %base = binade.constant dense<5.000000e-01> : tensor<f32>
  %half = binade.constant dense<5.000000e-01> : tensor<4xf32>
  %zero = binade.constant dense<0.000000e+00> : tensor<4xf32>
  %now = binade.add %seen, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %wide = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %x, %wide : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  %dw = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<4xf32>
  %g = binade.add %zero, %dw : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %kept = binade.mul %m, %half : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %taken = binade.mul %g, %half : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %square = binade.mul %g, %taken : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m_new = binade.add %kept, %square : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %next = binade.add %step, %unit : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %rate = binade.pow %base, %next : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %rates = binade.broadcast %rate {axes = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %sum = binade.add %m_new, %taken : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %change = binade.mul %sum, %rates : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %w_new = binade.sub %w, %change : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %w_new, %loss, %m_new, %next, %now : tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<f32>, tensor<i64>
}
