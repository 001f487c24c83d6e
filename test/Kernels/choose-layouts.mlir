// RUN: binade-opt %s --binade-choose-layouts --canonicalize --split-input-file | FileCheck %s

// The forward half of a residual block. The image is transposed once; ops after the
// convolutions keep their layout, and the result of the sum over positions has none.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[X:.*]] = binade.transpose %arg0 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x4x5x6xf32>) -> tensor<2x5x6x4xf32>
// CHECK-NEXT:    %[[A:.*]] = binade.conv %[[X]], %arg1 {channels_last, {{.*}}} : (tensor<2x5x6x4xf32>, tensor<4x4x3x3xf32>) -> tensor<2x5x6x4xf32>
// CHECK-NEXT:    %[[M:.*]], %[[V:.*]] = binade.batch_norm_statistics %[[A]] {axis = 3 : i64}
// CHECK-NEXT:    %[[N:.*]] = binade.batch_norm %[[A]], %arg2, %arg2, %[[M]], %[[V]] {axis = 3 : i64, {{.*}}} : {{.*}} -> tensor<2x5x6x4xf32>
// CHECK-NEXT:    %[[R:.*]] = binade.relu %[[N]]
// CHECK-NEXT:    %[[S:.*]] = binade.save %[[R]]
// CHECK-NEXT:    %[[B:.*]] = binade.add %[[S]], %[[X]]
// CHECK-NEXT:    %[[P:.*]] = binade.reduce_mean %[[B]] {axes = array<i64: 1, 2>} : (tensor<2x5x6x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    return %[[P]]
func.func @step(%x: tensor<2x4x5x6xf32>, %w: tensor<4x4x3x3xf32>, %c: tensor<4xf32>) -> tensor<2x4xf32> {
  %a = binade.conv %x, %w {strides = array<i64: 1, 1>, padding_low = array<i64: 1, 1>,
      padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
    : (tensor<2x4x5x6xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x5x6xf32>
  %m, %v = binade.batch_norm_statistics %a {axis = 1 : i64}
    : (tensor<2x4x5x6xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %n = binade.batch_norm %a, %c, %c, %m, %v {axis = 1 : i64, epsilon = 1.0e-5 : f64, training}
    : (tensor<2x4x5x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5x6xf32>
  %r = binade.relu %n : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %s = binade.save %r : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %b = binade.add %s, %x : (tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %p = binade.reduce_mean %b {axes = array<i64: 2, 3>} : (tensor<2x4x5x6xf32>) -> tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}

// -----

// The backward half. Broadcasts and constants are built in the layout that their user
// needs: the operand of a broadcast is transposed where its axes change their order.
// The gradients of the weight and of the image are returned in row-major order.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[X:.*]] = binade.transpose %arg0 {{.*}} -> tensor<2x5x6x4xf32>
// CHECK-DAG:     %[[HALF:.*]] = binade.constant dense<5.000000e-01> : tensor<2x5x6x4xf32>
// CHECK-DAG:     %[[T:.*]] = binade.transpose %arg3 {{.*}}permutation = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
// CHECK-DAG:     %[[PER_SAMPLE:.*]] = binade.broadcast %arg2 {axes = array<i64: 0, 3>} : (tensor<2x4xf32>) -> tensor<2x5x6x4xf32>
// CHECK-DAG:     %[[PER_ROW:.*]] = binade.broadcast %[[T]] {axes = array<i64: 1, 3>} : (tensor<5x4xf32>) -> tensor<2x5x6x4xf32>
// CHECK:         %[[A:.*]] = binade.conv %[[X]], %arg1
// CHECK:         binade.mul %[[A]], %[[HALF]]
// CHECK:         binade.add %[[PER_SAMPLE]],
// CHECK:         %[[D:.*]] = binade.relu_grad %{{.*}}, %[[PER_ROW]]
// CHECK:         %[[DX:.*]] = binade.conv_input_grad %[[D]], %arg1 {channels_last, {{.*}}} : (tensor<2x5x6x4xf32>, tensor<4x4x3x3xf32>) -> tensor<2x5x6x4xf32>
// CHECK:         %[[DXT:.*]] = binade.transpose %[[DX]] {{.*}}permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x5x6x4xf32>) -> tensor<2x4x5x6xf32>
// CHECK:         %[[DW:.*]] = binade.conv_weight_grad %[[D]], %[[X]] {channels_last, {{.*}}} : (tensor<2x5x6x4xf32>, tensor<2x5x6x4xf32>) -> tensor<4x4x3x3xf32>
// CHECK:         return %[[DXT]], %[[DW]], %[[DXT]]
func.func @step(%x: tensor<2x4x5x6xf32>, %w: tensor<4x4x3x3xf32>, %d: tensor<2x4xf32>, %e: tensor<4x5xf32>)
    -> (tensor<2x4x5x6xf32>, tensor<4x4x3x3xf32>, tensor<2x4x5x6xf32>) {
  %half = binade.constant dense<0.5> : tensor<2x4x5x6xf32>
  %0 = binade.broadcast %d {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<2x4x5x6xf32>
  %1 = binade.broadcast %e {axes = array<i64: 1, 2>} : (tensor<4x5xf32>) -> tensor<2x4x5x6xf32>
  %2 = binade.conv %x, %w {strides = array<i64: 1, 1>, padding_low = array<i64: 1, 1>,
      padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
    : (tensor<2x4x5x6xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x5x6xf32>
  %3 = binade.mul %2, %half : (tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %4 = binade.add %0, %3 : (tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %5 = binade.relu_grad %4, %1 : (tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %dx = binade.conv_input_grad %5, %w {strides = array<i64: 1, 1>, padding_low = array<i64: 1, 1>,
      padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
    : (tensor<2x4x5x6xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x5x6xf32>
  %dw = binade.conv_weight_grad %5, %x {strides = array<i64: 1, 1>, padding_low = array<i64: 1, 1>,
      padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64}
    : (tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>) -> tensor<4x4x3x3xf32>
  return %dx, %dw, %dx : tensor<2x4x5x6xf32>, tensor<4x4x3x3xf32>, tensor<2x4x5x6xf32>
}

// -----

// Axes are renamed in slices, pads and concats, and in reductions; a result whose axes
// are out of order has a layout of its own.

// CHECK-LABEL: func.func @step
// CHECK:         %[[A:.*]] = binade.conv
// CHECK:         %[[S:.*]] = binade.slice %[[A]] {offsets = array<i64: 0, 0, 2, 1>, strides = array<i64: 1, 1, 3, 2>} : (tensor<2x5x6x4xf32>) -> tensor<2x5x2x2xf32>
// CHECK:         %[[P:.*]] = binade.pad %[[S]] {offsets = array<i64: 0, 0, 1, 0>, strides = array<i64: 1, 1, 2, 1>} : (tensor<2x5x2x2xf32>) -> tensor<2x5x6x2xf32>
// CHECK:         %[[C:.*]] = binade.concat %[[A]], %[[P]] {axis = 3 : i64} : (tensor<2x5x6x4xf32>, tensor<2x5x6x2xf32>) -> tensor<2x5x6x6xf32>
// CHECK:         %[[R:.*]] = binade.reduce_sum %[[C]] {axes = array<i64: 0>} : (tensor<2x5x6x6xf32>) -> tensor<5x6x6xf32>
// CHECK:         %[[T:.*]] = binade.transpose %[[R]] {{.*}}permutation = array<i64: 2, 0, 1>}
// CHECK:         %[[Q:.*]] = binade.reduce_max %[[R]] {axes = array<i64: 0>} : (tensor<5x6x6xf32>) -> tensor<6x6xf32>
// CHECK:         %[[U:.*]] = binade.transpose %[[Q]] {{.*}}permutation = array<i64: 1, 0>}
// CHECK:         return %[[T]], %[[U]]
func.func @step(%x: tensor<2x4x5x6xf32>, %w: tensor<4x4x1x1xf32>) -> (tensor<6x5x6xf32>, tensor<6x6xf32>) {
  %a = binade.conv %x, %w {strides = array<i64: 1, 1>, padding_low = array<i64: 0, 0>,
      padding_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
    : (tensor<2x4x5x6xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x5x6xf32>
  %s = binade.slice %a {offsets = array<i64: 0, 1, 0, 2>, strides = array<i64: 1, 2, 1, 3>}
    : (tensor<2x4x5x6xf32>) -> tensor<2x2x5x2xf32>
  %p = binade.pad %s {offsets = array<i64: 0, 0, 0, 1>, strides = array<i64: 1, 1, 1, 2>}
    : (tensor<2x2x5x2xf32>) -> tensor<2x2x5x6xf32>
  %c = binade.concat %a, %p {axis = 1 : i64} : (tensor<2x4x5x6xf32>, tensor<2x2x5x6xf32>) -> tensor<2x6x5x6xf32>
  %r = binade.reduce_sum %c {axes = array<i64: 0>} : (tensor<2x6x5x6xf32>) -> tensor<6x5x6xf32>
  %q = binade.reduce_max %r {axes = array<i64: 1>} : (tensor<6x5x6xf32>) -> tensor<6x6xf32>
  return %r, %q : tensor<6x5x6xf32>, tensor<6x6xf32>
}

// -----

// Ops that require row-major order share one transpose. Dropout is such an op, because it
// numbers its elements in row-major order. A transpose moves before a widening cast, so
// that it moves fewer bytes.

// CHECK-LABEL: func.func @step
// CHECK:         %[[N:.*]] = binade.transpose %arg0 {{.*}} : (tensor<2x4x5x6xbf16>) -> tensor<2x5x6x4xbf16>
// CHECK:         %[[X:.*]] = binade.cast %[[N]] : (tensor<2x5x6x4xbf16>) -> tensor<2x5x6x4xf32>
// CHECK:         %[[A:.*]] = binade.conv %[[X]]
// CHECK:         %[[T:.*]] = binade.transpose %[[A]] {{.*}} -> tensor<2x4x5x6xf32>
// CHECK-NOT:     binade.transpose
// CHECK:         %[[S:.*]] = binade.softmax %[[T]]
// CHECK:         %[[D:.*]] = binade.dropout %[[T]], %arg2
// CHECK:         return %[[S]], %[[D]]
func.func @step(%x: tensor<2x4x5x6xbf16>, %w: tensor<4x4x1x1xf32>, %rng: tensor<2xi64>)
    -> (tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>) {
  %wide = binade.cast %x : (tensor<2x4x5x6xbf16>) -> tensor<2x4x5x6xf32>
  %a = binade.conv %wide, %w {strides = array<i64: 1, 1>, padding_low = array<i64: 0, 0>,
      padding_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
    : (tensor<2x4x5x6xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x5x6xf32>
  %s = binade.softmax %a : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %d = binade.dropout %a, %rng {ratio = 0.5 : f64, stream = 0 : i64}
    : (tensor<2x4x5x6xf32>, tensor<2xi64>) -> tensor<2x4x5x6xf32>
  return %s, %d : tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>
}

// -----

// Moving axes of length 1 is a reshape: one channel in, one position out. The same holds
// for one axis, and for a transpose that exists already.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     binade.transpose
// CHECK-DAG:     %[[X:.*]] = binade.reshape %arg0 {{.*}}: (tensor<2x1x6xf32>) -> tensor<2x6x1xf32>
// CHECK:         %[[A:.*]] = binade.conv %[[X]], %arg1 {channels_last, {{.*}}} : (tensor<2x6x1xf32>, tensor<4x1x6xf32>) -> tensor<2x1x4xf32>
// CHECK:         %[[Y:.*]] = binade.reshape %[[A]] {{.*}}: (tensor<2x1x4xf32>) -> tensor<2x4x1xf32>
// CHECK:         %[[B:.*]] = binade.conv %arg2, %arg3 {channels_last, {{.*}}} : (tensor<2x6x3xf32>, tensor<4x3x6xf32>) -> tensor<2x1x4xf32>
// CHECK:         %[[Z:.*]] = binade.reshape %[[B]]
// CHECK:         return %[[Y]], %[[Z]]
func.func @step(%x: tensor<2x1x6xf32>, %w: tensor<4x1x6xf32>, %last: tensor<2x6x3xf32>, %v: tensor<4x3x6xf32>)
    -> (tensor<2x4x1xf32>, tensor<2x4x1xf32>) {
  %a = binade.conv %x, %w {strides = array<i64: 1>, padding_low = array<i64: 0>,
      padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64}
    : (tensor<2x1x6xf32>, tensor<4x1x6xf32>) -> tensor<2x4x1xf32>
  %t = binade.transpose %last {permutation = array<i64: 0, 2, 1>} : (tensor<2x6x3xf32>) -> tensor<2x3x6xf32>
  %b = binade.conv %t, %v {strides = array<i64: 1>, padding_low = array<i64: 0>,
      padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64}
    : (tensor<2x3x6xf32>, tensor<4x3x6xf32>) -> tensor<2x4x1xf32>
  return %a, %b : tensor<2x4x1xf32>, tensor<2x4x1xf32>
}

// -----

// A convolution whose channels are already last keeps its operands, and nothing changes
// where no op prefers a layout.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.conv %arg0, %arg1 {channels_last, {{.*}}} : (tensor<2x6x4xf32>, tensor<4x4x1xf32>) -> tensor<2x6x4xf32>
// CHECK-NEXT:    %[[T:.*]] = binade.transpose %[[A]] {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT:    %[[R:.*]] = binade.reduce_sum %[[T]] {axes = array<i64: 1>}
// CHECK-NEXT:    return %[[R]]
func.func @step(%x: tensor<2x6x4xf32>, %w: tensor<4x4x1xf32>) -> tensor<6x4xf32> {
  %a = binade.conv %x, %w {strides = array<i64: 1>, padding_low = array<i64: 0>,
      padding_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64, channels_last}
    : (tensor<2x6x4xf32>, tensor<4x4x1xf32>) -> tensor<2x6x4xf32>
  %t = binade.transpose %a {permutation = array<i64: 1, 0, 2>} : (tensor<2x6x4xf32>) -> tensor<6x2x4xf32>
  %r = binade.reduce_sum %t {axes = array<i64: 1>} : (tensor<6x2x4xf32>) -> tensor<6x4xf32>
  return %r : tensor<6x4xf32>
}
