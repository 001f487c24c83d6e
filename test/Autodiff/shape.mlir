// RUN: binade-opt %s --binade-build-gradient --split-input-file | FileCheck %s

// The gradients of data movement move the elements back.

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[RESHAPE:.*]] = binade.reshape %arg0
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[RESHAPE]] {axes = array<i64: 0>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[RESHAPE2:.*]] = binade.reshape %[[BROADCAST]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[RESHAPE2]]
func.func @forward(%x: tensor<2x3xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The gradient of a transpose has the inverse permutation.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[TRANSPOSE:.*]] = binade.transpose %arg0 {permutation = array<i64: 2, 0, 1>}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[TRANSPOSE]] {axes = array<i64: 0, 1, 2>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[TRANSPOSE2:.*]] = binade.transpose %[[BROADCAST]] {binade.phase = #binade.phase<backward>, permutation = array<i64: 1, 2, 0>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[TRANSPOSE2]]
func.func @forward(%x: tensor<2x3x4xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.transpose %x {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1, 2>} : (tensor<4x2x3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The gradient of a broadcast sums new axes and axes of length 1.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %arg0 {axes = array<i64: 1, 2>}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[BROADCAST]] {axes = array<i64: 0, 1, 2>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST2:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[REDUCE_SUM2:.*]] = binade.reduce_sum %[[BROADCAST2]] {axes = array<i64: 0, 2>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[RESHAPE:.*]] = binade.reshape %[[REDUCE_SUM2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[RESHAPE]]
func.func @forward(%x: tensor<3x1xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.broadcast %x {axes = array<i64: 1, 2>} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[SLICE:.*]] = binade.slice %arg0 {offsets = array<i64: 1>, strides = array<i64: 2>}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[SLICE]] {axes = array<i64: 0>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[PAD:.*]] = binade.pad %[[BROADCAST]] {binade.phase = #binade.phase<backward>, offsets = array<i64: 1>, strides = array<i64: 2>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[PAD]]
func.func @forward(%x: tensor<6xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.slice %x {offsets = array<i64: 1>, strides = array<i64: 2>} : (tensor<6xf32>) -> tensor<3xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[PAD:.*]] = binade.pad %arg0 {offsets = array<i64: 1>, strides = array<i64: 2>}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[PAD]] {axes = array<i64: 0>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[SLICE:.*]] = binade.slice %[[BROADCAST]] {binade.phase = #binade.phase<backward>, offsets = array<i64: 1>, strides = array<i64: 2>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[SLICE]]
func.func @forward(%x: tensor<3xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.pad %x {offsets = array<i64: 1>, strides = array<i64: 2>} : (tensor<3xf32>) -> tensor<6xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[CONCAT:.*]] = binade.concat %arg0, %arg1, %arg2 {axis = 0 : i64}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[CONCAT]] {axes = array<i64: 0>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[SLICE:.*]] = binade.slice %[[BROADCAST]] {binade.phase = #binade.phase<backward>, offsets = array<i64: 0>, strides = array<i64: 1>}
// CHECK-NEXT:    %[[SLICE2:.*]] = binade.slice %[[BROADCAST]] {binade.phase = #binade.phase<backward>, offsets = array<i64: 2>, strides = array<i64: 1>}
// CHECK-NEXT:    %[[SLICE3:.*]] = binade.slice %[[BROADCAST]] {binade.phase = #binade.phase<backward>, offsets = array<i64: 5>, strides = array<i64: 1>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[SLICE]], %[[SLICE2]], %[[SLICE3]]
func.func @forward(%x: tensor<2xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %y: tensor<3xf32> {binade.name = "y", binade.role = #binade.role<parameter>},
                   %z: tensor<1xf32> {binade.name = "z", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %u = binade.concat %x, %y, %z {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>, tensor<1xf32>) -> tensor<6xf32>
  %loss = binade.reduce_sum %u {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
