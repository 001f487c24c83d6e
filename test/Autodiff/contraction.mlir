// RUN: binade-opt %s --binade-build-gradient --split-input-file | FileCheck %s

// The adjoint of a matmul is two matmuls: transposes are flags, never ops.

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[MATMUL:.*]] = binade.matmul %arg0, %arg1
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[MATMUL]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MATMUL2:.*]] = binade.matmul %[[BROADCAST]], %arg1 {binade.phase = #binade.phase<backward>, transpose_rhs}
// CHECK-NEXT:    %[[MATMUL3:.*]] = binade.matmul %arg0, %[[BROADCAST]] {binade.phase = #binade.phase<backward>, transpose_lhs}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[MATMUL2]], %[[MATMUL3]]
func.func @forward(%x: tensor<2x3xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %w: tensor<3x4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[MATMUL:.*]] = binade.matmul %arg0, %arg1 {transpose_lhs}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[MATMUL]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MATMUL2:.*]] = binade.matmul %arg1, %[[BROADCAST]] {binade.phase = #binade.phase<backward>, transpose_rhs}
// CHECK-NEXT:    %[[MATMUL3:.*]] = binade.matmul %arg0, %[[BROADCAST]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[MATMUL2]], %[[MATMUL3]]
func.func @forward(%x: tensor<3x2xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %w: tensor<3x4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.matmul %x, %w {transpose_lhs} : (tensor<3x2xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[MATMUL:.*]] = binade.matmul %arg0, %arg1 {transpose_rhs}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[MATMUL]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MATMUL2:.*]] = binade.matmul %[[BROADCAST]], %arg1 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MATMUL3:.*]] = binade.matmul %[[BROADCAST]], %arg0 {binade.phase = #binade.phase<backward>, transpose_lhs}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[MATMUL2]], %[[MATMUL3]]
func.func @forward(%x: tensor<2x3xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %w: tensor<4x3xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.matmul %x, %w {transpose_rhs} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[MATMUL:.*]] = binade.matmul %arg0, %arg1 {transpose_lhs, transpose_rhs}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[MATMUL]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MATMUL2:.*]] = binade.matmul %arg1, %[[BROADCAST]] {binade.phase = #binade.phase<backward>, transpose_lhs, transpose_rhs}
// CHECK-NEXT:    %[[MATMUL3:.*]] = binade.matmul %[[BROADCAST]], %arg0 {binade.phase = #binade.phase<backward>, transpose_lhs, transpose_rhs}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[MATMUL2]], %[[MATMUL3]]
func.func @forward(%x: tensor<3x2xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %w: tensor<4x3xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.matmul %x, %w {transpose_lhs, transpose_rhs} : (tensor<3x2xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The gradient of a bias is a sum over all axes but the last; the batch gets no gradient.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[MATMUL:.*]] = binade.matmul %arg0, %arg1, %arg2 {transpose_rhs}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[MATMUL]] {axes = array<i64: 0, 1, 2>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MATMUL2:.*]] = binade.matmul %[[BROADCAST]], %arg0 {binade.phase = #binade.phase<backward>, transpose_lhs}
// CHECK-NEXT:    %[[REDUCE_SUM2:.*]] = binade.reduce_sum %[[BROADCAST]] {axes = array<i64: 0, 1>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[MATMUL2]], %[[REDUCE_SUM2]]
func.func @forward(%x: tensor<5x2x3xf32> {binade.name = "x", binade.role = #binade.role<batch>},
                   %w: tensor<5x4x3xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                   %b: tensor<4xf32> {binade.name = "b", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.matmul %x, %w, %b {transpose_rhs} : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<4xf32>) -> tensor<5x2x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1, 2>} : (tensor<5x2x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
