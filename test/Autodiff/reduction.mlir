// RUN: binade-opt %s --binade-build-gradient --split-input-file | FileCheck %s

// The gradient of a reduction is broadcast to the shape of its operand.

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %arg0 {axes = array<i64: 1>}
// CHECK-NEXT:    %[[REDUCE_SUM2:.*]] = binade.reduce_sum %[[REDUCE_SUM]] {axes = array<i64: 0>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST2:.*]] = binade.broadcast %[[BROADCAST]] {axes = array<i64: 0>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM2]], %[[BROADCAST2]]
func.func @forward(%x: tensor<4x3xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.reduce_sum %x {axes = array<i64: 1>} : (tensor<4x3xf32>) -> tensor<4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[REDUCE_MEAN:.*]] = binade.reduce_mean %arg0 {axes = array<i64: 0>}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[REDUCE_MEAN]] {axes = array<i64: 0>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<4.000000e+00>
// CHECK-NEXT:    %[[DIV:.*]] = binade.div %[[BROADCAST]], %[[C]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST2:.*]] = binade.broadcast %[[DIV]] {axes = array<i64: 1>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[BROADCAST2]]
func.func @forward(%x: tensor<4x3xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.reduce_mean %x {axes = array<i64: 0>} : (tensor<4x3xf32>) -> tensor<3xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Equal maxima share the gradient.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[REDUCE_MAX:.*]] = binade.reduce_max %arg0 {axes = array<i64: 1>}
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[REDUCE_MAX]]
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[REDUCE_MAX]] {axes = array<i64: 0>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST2:.*]] = binade.broadcast %[[SAVE]] {axes = array<i64: 0>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[COMPARE:.*]] = binade.compare %arg0, %[[BROADCAST2]] {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<equal>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<1.000000e+00>
// CHECK-NEXT:    %[[C2:.*]] = binade.constant dense<0.000000e+00>
// CHECK-NEXT:    %[[SELECT:.*]] = binade.select %[[COMPARE]], %[[C]], %[[C2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[REDUCE_SUM2:.*]] = binade.reduce_sum %[[SELECT]] {axes = array<i64: 1>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[DIV:.*]] = binade.div %[[BROADCAST]], %[[REDUCE_SUM2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST3:.*]] = binade.broadcast %[[DIV]] {axes = array<i64: 0>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[SELECT]], %[[BROADCAST3]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[MUL]]
func.func @forward(%x: tensor<4x3xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.reduce_max %x {axes = array<i64: 1>} : (tensor<4x3xf32>) -> tensor<4xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
