// RUN: binade-opt %s --binade-build-gradient --split-input-file | FileCheck %s

// Both gradients of a convolution have its geometry.

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[CONV:.*]] = binade.conv %arg0, %arg1, %arg2 {dilations = array<i64: 1>, groups = 2 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 1>, strides = array<i64: 1>}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[CONV]] {axes = array<i64: 0, 1, 2>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[CONV_INPUT_GRAD:.*]] = binade.conv_input_grad %[[BROADCAST]], %arg1 {binade.phase = #binade.phase<backward>, dilations = array<i64: 1>, groups = 2 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 1>, strides = array<i64: 1>}
// CHECK-NEXT:    %[[CONV_WEIGHT_GRAD:.*]] = binade.conv_weight_grad %[[BROADCAST]], %arg0 {binade.phase = #binade.phase<backward>, dilations = array<i64: 1>, groups = 2 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 1>, strides = array<i64: 1>}
// CHECK-NEXT:    %[[REDUCE_SUM2:.*]] = binade.reduce_sum %[[BROADCAST]] {axes = array<i64: 0, 2>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[CONV_INPUT_GRAD]], %[[CONV_WEIGHT_GRAD]], %[[REDUCE_SUM2]]
func.func @forward(%x: tensor<2x4x6xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %w: tensor<6x2x3xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                   %b: tensor<6xf32> {binade.name = "b", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.conv %x, %w, %b {strides = array<i64: 1>, padding_low = array<i64: 1>, padding_high = array<i64: 0>,
      dilations = array<i64: 1>, groups = 2 : i64}
    : (tensor<2x4x6xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<2x6x5xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1, 2>} : (tensor<2x6x5xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The bias has one entry per channel, whichever axis has the channels.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[CONV:.*]] = binade.conv %arg0, %arg1, %arg2 {channels_last, dilations = array<i64: 1>, groups = 2 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 1>, strides = array<i64: 1>}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[CONV]] {axes = array<i64: 0, 1, 2>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[CONV_INPUT_GRAD:.*]] = binade.conv_input_grad %[[BROADCAST]], %arg1 {binade.phase = #binade.phase<backward>, channels_last, dilations = array<i64: 1>, groups = 2 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 1>, strides = array<i64: 1>}
// CHECK-NEXT:    %[[CONV_WEIGHT_GRAD:.*]] = binade.conv_weight_grad %[[BROADCAST]], %arg0 {binade.phase = #binade.phase<backward>, channels_last, dilations = array<i64: 1>, groups = 2 : i64, padding_high = array<i64: 0>, padding_low = array<i64: 1>, strides = array<i64: 1>}
// CHECK-NEXT:    %[[REDUCE_SUM2:.*]] = binade.reduce_sum %[[BROADCAST]] {axes = array<i64: 0, 1>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[CONV_INPUT_GRAD]], %[[CONV_WEIGHT_GRAD]], %[[REDUCE_SUM2]]
func.func @forward(%x: tensor<2x6x4xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %w: tensor<6x2x3xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                   %b: tensor<6xf32> {binade.name = "b", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.conv %x, %w, %b {strides = array<i64: 1>, padding_low = array<i64: 1>, padding_high = array<i64: 0>,
      dilations = array<i64: 1>, groups = 2 : i64, channels_last}
    : (tensor<2x6x4xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<2x5x6xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1, 2>} : (tensor<2x5x6xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
