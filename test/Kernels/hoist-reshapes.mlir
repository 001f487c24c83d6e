// RUN: binade-opt %s --binade-set-cuda-target --binade-hoist-reshapes --canonicalize --split-input-file | FileCheck %s
// RUN: binade-opt %s --binade-hoist-reshapes --split-input-file | FileCheck %s --check-prefix=CPU

// The bias is added in the shape of the residual, and so is the cast before it computed,
// with its own broadcast. The matmul reads the result in its shape.

// CHECK-LABEL: func.func @step
// CHECK:         %[[M:.*]] = binade.reshape %arg0 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
// CHECK:         %[[B:.*]] = binade.broadcast %arg1 {axes = array<i64: 2>}
// CHECK:         %[[S:.*]] = binade.add %[[M]], %[[B]]
// CHECK:         %[[C:.*]] = binade.cast %[[S]] : (tensor<2x4x16xf32>) -> tensor<2x4x16xbf16>
// CHECK:         %[[R:.*]] = binade.reshape %[[C]] : (tensor<2x4x16xbf16>) -> tensor<8x16xbf16>
// CHECK:         %[[P:.*]] = binade.matmul %[[R]], %[[R]]
// CHECK:         %[[W:.*]] = binade.cast %[[C]]
// CHECK:         binade.add %arg2, %[[W]]

// CPU-LABEL:   func.func @step
// CPU:           binade.add %arg0, %{{.*}} : (tensor<8x16xf32>, tensor<8x16xf32>)
func.func @step(%m: tensor<8x16xf32>, %bias: tensor<16xf32>, %x: tensor<2x4x16xf32>)
    -> (tensor<2x4x16xf32>, tensor<8x8xf32>) {
  %0 = binade.broadcast %bias {axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<8x16xf32>
  %1 = binade.add %m, %0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = binade.cast %1 : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  %3 = binade.reshape %2 : (tensor<8x16xbf16>) -> tensor<2x4x16xbf16>
  %4 = binade.matmul %2, %2 {transpose_rhs} : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xf32>
  %5 = binade.cast %3 : (tensor<2x4x16xbf16>) -> tensor<2x4x16xf32>
  %6 = binade.add %x, %5 : (tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  return %6, %4 : tensor<2x4x16xf32>, tensor<8x8xf32>
}

// -----

// An op stays as it is if kernels read it in two shapes, or if it is broadcast along an
// axis that the reshape splits.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[E:.*]] = binade.exp %arg0 : (tensor<8x16xf32>)
// CHECK-NEXT:    %[[B:.*]] = binade.broadcast %arg1 {axes = array<i64: 0>}
// CHECK-NEXT:    %[[S:.*]] = binade.add %[[E]], %[[B]] : (tensor<8x16xf32>
// CHECK-NEXT:    %[[R:.*]] = binade.reshape %[[S]]
// CHECK-NEXT:    %[[Y:.*]] = binade.neg %[[R]]

// CPU-LABEL:   func.func @step
func.func @step(%m: tensor<8x16xf32>, %rows: tensor<8xf32>) -> (tensor<2x4x16xf32>, tensor<8x16xf32>) {
  %0 = binade.exp %m : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = binade.broadcast %rows {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x16xf32>
  %2 = binade.add %0, %1 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = binade.reshape %2 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %4 = binade.neg %3 : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %5 = binade.reshape %0 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %6 = binade.neg %5 : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %7 = binade.sqrt %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %8 = binade.add %4, %6 : (tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  return %8, %7 : tensor<2x4x16xf32>, tensor<8x16xf32>
}

// -----

// No kernel reads %g, and another one reads %x in two axes: one kernel loads %x for both.

// CHECK-LABEL: func.func @step
// CHECK:         %[[X:.*]] = binade.reshape %arg0 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
// CHECK-NOT:     binade.reshape
// CHECK:         %[[G:.*]] = binade.gelu %[[X]] : (tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-NOT:     binade.reshape
// CHECK:         binade.gelu_grad %arg1, %[[X]]
// CHECK:         binade.matmul %[[G]], %[[G]]

// CPU-LABEL:   func.func @step
// CPU:           binade.gelu %arg0
module {
func.func @step(%x: tensor<2x4x16xf32>, %dy: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x8xf32>) {
  %g = binade.gelu %x : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %0 = binade.reshape %g : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
  %1 = binade.reshape %x : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
  %2 = binade.gelu_grad %dy, %1 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = binade.matmul %0, %0 {transpose_rhs} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  return %2, %3 : tensor<8x16xf32>, tensor<8x8xf32>
}
}

// -----

// A reduction of all axes but the last reads through a reshape that keeps this axis, so
// that it has the shape of what computes its operand. The other one reduces parts of rows.

// CHECK-LABEL: func.func @step
// CHECK:         %[[N:.*]] = binade.neg %arg0 : (tensor<2x4x16xbf16>)
// CHECK:         %[[C:.*]] = binade.cast %[[N]] : (tensor<2x4x16xbf16>) -> tensor<2x4x16xf32>
// CHECK:         binade.reduce_sum %[[C]] {axes = array<i64: 0, 1>} : (tensor<2x4x16xf32>) -> tensor<16xf32>
// CHECK:         %[[R:.*]] = binade.reshape %[[N]] : (tensor<2x4x16xbf16>) -> tensor<16x8xbf16>
// CHECK:         binade.reduce_max %[[R]] {axes = array<i64: 0>} : (tensor<16x8xbf16>) -> tensor<8xbf16>

// CPU-LABEL:   func.func @step
// CPU:           binade.reduce_sum %{{.*}} {axes = array<i64: 0>} : (tensor<8x16xf32>)
func.func @step(%x: tensor<2x4x16xbf16>) -> (tensor<2x4x16xbf16>, tensor<16xf32>, tensor<8xbf16>) {
  %0 = binade.neg %x : (tensor<2x4x16xbf16>) -> tensor<2x4x16xbf16>
  %1 = binade.reshape %0 : (tensor<2x4x16xbf16>) -> tensor<8x16xbf16>
  %2 = binade.cast %1 : (tensor<8x16xbf16>) -> tensor<8x16xf32>
  %3 = binade.reduce_sum %2 {axes = array<i64: 0>} : (tensor<8x16xf32>) -> tensor<16xf32>
  %4 = binade.reshape %0 : (tensor<2x4x16xbf16>) -> tensor<16x8xbf16>
  %5 = binade.reduce_max %4 {axes = array<i64: 0>} : (tensor<16x8xbf16>) -> tensor<8xbf16>
  return %0, %3, %5 : tensor<2x4x16xbf16>, tensor<16xf32>, tensor<8xbf16>
}

// -----

// A maximum of a tensor whose columns are summed is computed by columns first, so that one
// kernel reduces columns only, but not where a kernel of rows computes the tensor.

// CHECK-LABEL: func.func @step
// CHECK:         %[[A:.*]] = binade.abs %arg0
// CHECK:         %[[C:.*]] = binade.reduce_max %[[A]] {axes = array<i64: 0>} : (tensor<8x16xf32>) -> tensor<16xf32>
// CHECK:         binade.reduce_max %[[C]] {axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<f32>
// CHECK:         %[[S:.*]] = binade.softmax
// CHECK:         binade.reduce_max %[[S]] {axes = array<i64: 1>} : (tensor<8x16xf32>) -> tensor<8xf32>

// CPU-LABEL:   func.func @step
// CPU:           binade.reduce_max %{{.*}} {axes = array<i64: 1>} : (tensor<8x16xf32>)
func.func @step(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> (tensor<f32>, tensor<16xf32>, tensor<8x16xf32>, tensor<f32>, tensor<16xf32>) {
  %0 = binade.abs %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = binade.reduce_max %0 {axes = array<i64: 1>} : (tensor<8x16xf32>) -> tensor<8xf32>
  %2 = binade.reduce_max %1 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %3 = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<8x16xf32>) -> tensor<16xf32>
  %4 = binade.softmax %y : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %5 = binade.reduce_max %4 {axes = array<i64: 1>} : (tensor<8x16xf32>) -> tensor<8xf32>
  %6 = binade.reduce_max %5 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %7 = binade.reduce_sum %4 {axes = array<i64: 0>} : (tensor<8x16xf32>) -> tensor<16xf32>
  return %2, %3, %4, %6, %7 : tensor<f32>, tensor<16xf32>, tensor<8x16xf32>, tensor<f32>, tensor<16xf32>
}
