// RUN: binade-opt %s --split-input-file --binade-recognize-gradients | FileCheck %s

// CHECK-LABEL: func.func @gradient(
// CHECK:         %[[Y:.*]] = binade.softmax %arg0
// CHECK-NEXT:    %[[DX:.*]] = binade.softmax_grad %arg1, %[[Y]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[DX]]
func.func @gradient(%x: tensor<2x3x4xf32>, %dy: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %y = binade.softmax %x : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %p = binade.mul %dy, %y {binade.phase = #binade.phase<backward>} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %s = binade.reduce_sum %p {axes = array<i64: 2>, binade.phase = #binade.phase<backward>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  %k = binade.reshape %s {binade.phase = #binade.phase<backward>} : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  %b = binade.broadcast %k {axes = array<i64: 0, 1, 2>, binade.phase = #binade.phase<backward>} : (tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  %q = binade.mul %b, %y {binade.phase = #binade.phase<backward>} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %dx = binade.sub %p, %q {binade.phase = #binade.phase<backward>} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %dx : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @gradient(
// CHECK:         %[[Y:.*]] = binade.log_softmax %arg0
// CHECK-NEXT:    %[[DX:.*]] = binade.log_softmax_grad %arg1, %[[Y]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[DX]]
func.func @gradient(%x: tensor<3x4xf32>, %dy: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %y = binade.log_softmax %x : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %e = binade.exp %y {binade.phase = #binade.phase<backward>} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %s = binade.reduce_sum %dy {axes = array<i64: 1>, binade.phase = #binade.phase<backward>} : (tensor<3x4xf32>) -> tensor<3xf32>
  %b = binade.broadcast %s {axes = array<i64: 0>, binade.phase = #binade.phase<backward>} : (tensor<3xf32>) -> tensor<3x4xf32>
  %q = binade.mul %e, %b {binade.phase = #binade.phase<backward>} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %dx = binade.sub %dy, %q {binade.phase = #binade.phase<backward>} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %dx : tensor<3x4xf32>
}

// -----

// Near misses: sums of columns, sums of another multiplication, and a square for its softmax.

// CHECK-LABEL: func.func @gradient(
// CHECK-NOT:     softmax_grad
func.func @gradient(%x: tensor<4x4xf32>, %dy: tensor<4x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = binade.softmax %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = binade.mul %dy, %y {binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = binade.reduce_sum %p {axes = array<i64: 0>, binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %b = binade.broadcast %s {axes = array<i64: 0>, binade.phase = #binade.phase<backward>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %q = binade.mul %b, %y {binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %columns = binade.sub %p, %q {binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>

  %s1 = binade.reduce_sum %dy {axes = array<i64: 1>, binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %b1 = binade.broadcast %s1 {axes = array<i64: 0>, binade.phase = #binade.phase<backward>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %q1 = binade.mul %b1, %y {binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %other = binade.sub %p, %q1 {binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>

  %z = binade.mul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %p2 = binade.mul %dy, %z {binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s2 = binade.reduce_sum %p2 {axes = array<i64: 1>, binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %b2 = binade.broadcast %s2 {axes = array<i64: 0>, binade.phase = #binade.phase<backward>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %q2 = binade.mul %b2, %z {binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %square = binade.sub %p2, %q2 {binade.phase = #binade.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %columns, %other, %square : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// The gradient of a weight: batches are summed as channels are. What the strides left over
// is cut off.

// CHECK-LABEL: func.func @gradient(
// CHECK-NEXT:    %[[DW:.*]] = binade.conv_weight_grad %arg1, %arg0
// CHECK-SAME:      binade.phase = #binade.phase<backward>
// CHECK-SAME:      dilations = array<i64: 1, 1>
// CHECK-SAME:      padding_high = array<i64: 0, 1>, padding_low = array<i64: 1, 0>, strides = array<i64: 2, 1>
// CHECK-NEXT:    return %[[DW]]
func.func @gradient(%x: tensor<2x3x9x8xf32>, %dy: tensor<2x4x4x8xf32>) -> tensor<4x3x3x2xf32> {
  %xt = binade.transpose %x {permutation = array<i64: 1, 0, 2, 3>, binade.phase = #binade.phase<backward>} : (tensor<2x3x9x8xf32>) -> tensor<3x2x9x8xf32>
  %dt = binade.transpose %dy {permutation = array<i64: 1, 0, 2, 3>, binade.phase = #binade.phase<backward>} : (tensor<2x4x4x8xf32>) -> tensor<4x2x4x8xf32>
  %c = binade.conv %xt, %dt {strides = array<i64: 1, 1>, padding_low = array<i64: 1, 0>, padding_high = array<i64: 0, 1>, dilations = array<i64: 2, 1>, groups = 1 : i64, binade.phase = #binade.phase<backward>} : (tensor<3x2x9x8xf32>, tensor<4x2x4x8xf32>) -> tensor<3x4x4x2xf32>
  %s = binade.slice %c {offsets = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>, binade.phase = #binade.phase<backward>} : (tensor<3x4x4x2xf32>) -> tensor<3x4x3x2xf32>
  %dw = binade.transpose %s {permutation = array<i64: 1, 0, 2, 3>, binade.phase = #binade.phase<backward>} : (tensor<3x4x3x2xf32>) -> tensor<4x3x3x2xf32>
  return %dw : tensor<4x3x3x2xf32>
}

// -----

// Not recognized: a slice that does not begin at the first element, and a weight whose
// convolution with x would not have dy's shape.

// CHECK-LABEL: func.func @gradient(
// CHECK-NOT:     conv_weight_grad
func.func @gradient(%x: tensor<2x3x9x8xf32>, %dy: tensor<2x4x4x8xf32>) -> (tensor<4x3x3x2xf32>, tensor<4x3x1x2xf32>) {
  %xt = binade.transpose %x {permutation = array<i64: 1, 0, 2, 3>, binade.phase = #binade.phase<backward>} : (tensor<2x3x9x8xf32>) -> tensor<3x2x9x8xf32>
  %dt = binade.transpose %dy {permutation = array<i64: 1, 0, 2, 3>, binade.phase = #binade.phase<backward>} : (tensor<2x4x4x8xf32>) -> tensor<4x2x4x8xf32>
  %c = binade.conv %xt, %dt {strides = array<i64: 1, 1>, padding_low = array<i64: 1, 0>, padding_high = array<i64: 0, 1>, dilations = array<i64: 2, 1>, groups = 1 : i64, binade.phase = #binade.phase<backward>} : (tensor<3x2x9x8xf32>, tensor<4x2x4x8xf32>) -> tensor<3x4x4x2xf32>
  %s = binade.slice %c {offsets = array<i64: 0, 0, 1, 0>, strides = array<i64: 1, 1, 1, 1>, binade.phase = #binade.phase<backward>} : (tensor<3x4x4x2xf32>) -> tensor<3x4x3x2xf32>
  %dw = binade.transpose %s {permutation = array<i64: 1, 0, 2, 3>, binade.phase = #binade.phase<backward>} : (tensor<3x4x3x2xf32>) -> tensor<4x3x3x2xf32>
  %t = binade.slice %c {offsets = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>, binade.phase = #binade.phase<backward>} : (tensor<3x4x4x2xf32>) -> tensor<3x4x1x2xf32>
  %du = binade.transpose %t {permutation = array<i64: 1, 0, 2, 3>, binade.phase = #binade.phase<backward>} : (tensor<3x4x1x2xf32>) -> tensor<4x3x1x2xf32>
  return %dw, %du : tensor<4x3x3x2xf32>, tensor<4x3x1x2xf32>
}
