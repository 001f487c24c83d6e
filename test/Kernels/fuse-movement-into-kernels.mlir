// RUN: binade-opt %s --binade-set-cuda-target --binade-fuse-movement-into-kernels --binade-form-kernels --split-input-file | FileCheck %s
// RUN: binade-opt %s --binade-fuse-movement-into-kernels --binade-form-kernels --split-input-file | FileCheck %s --check-prefix=CPU

// Rotary embeddings: one kernel reads the heads through a transpose and two slices, and
// writes both halves of each row.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[Y:.*]] = binade.launch [@[[ROTATE:mul_cast_0]]](%arg0, %arg1) : (tensor<2x16x4x32xbf16>, tensor<16x16xf32>) -> tensor<2x4x16x32xbf16>
// CHECK-NEXT:    return %[[Y]]
// CHECK:       func.func private @[[ROTATE]]
// CHECK:         binade.transpose
// CHECK:         binade.slice
// CHECK:         binade.mul
// CHECK:         binade.concat
// CHECK-NEXT:    binade.cast

// Without a target, each op that moves elements stays a kernel.

// CPU-LABEL:   func.func @step
// CPU:           binade.launch [@transpose_0]
// CPU:           binade.launch [@slice_1]
// CPU:           binade.launch [@slice_2]
// CPU:           binade.launch [@concat_{{[0-9]+}}]
func.func @step(%x: tensor<2x16x4x32xbf16>, %c: tensor<16x16xf32>) -> tensor<2x4x16x32xbf16> {
  %0 = binade.transpose %x {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x32xbf16>) -> tensor<2x4x16x32xbf16>
  %1 = binade.slice %0 {offsets = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x16x32xbf16>) -> tensor<2x4x16x16xbf16>
  %2 = binade.slice %0 {offsets = array<i64: 0, 0, 0, 16>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x16x32xbf16>) -> tensor<2x4x16x16xbf16>
  %3 = binade.broadcast %c {axes = array<i64: 2, 3>} : (tensor<16x16xf32>) -> tensor<2x4x16x16xf32>
  %4 = binade.cast %1 : (tensor<2x4x16x16xbf16>) -> tensor<2x4x16x16xf32>
  %5 = binade.cast %2 : (tensor<2x4x16x16xbf16>) -> tensor<2x4x16x16xf32>
  %6 = binade.mul %4, %3 : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %7 = binade.mul %5, %3 : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %8 = binade.sub %6, %7 : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %9 = binade.add %6, %7 : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %10 = binade.concat %8, %9 {axis = 3} : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x32xf32>
  %11 = binade.cast %10 : (tensor<2x4x16x32xf32>) -> tensor<2x4x16x32xbf16>
  return %11 : tensor<2x4x16x32xbf16>
}

// -----

// Two kernels read the transpose of an elementwise result, and each computes it, because it
// has more bytes than what it is computed from.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@{{.*}}](%arg0) : (tensor<4x16x32xbf16>) -> tensor<16x4xf32>
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@{{.*}}](%arg0) : (tensor<4x16x32xbf16>) -> tensor<4x32xf32>
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @step(%x: tensor<4x16x32xbf16>) -> (tensor<16x4xf32>, tensor<4x32xf32>) {
  %0 = binade.cast %x : (tensor<4x16x32xbf16>) -> tensor<4x16x32xf32>
  %1 = binade.exp %0 : (tensor<4x16x32xf32>) -> tensor<4x16x32xf32>
  %2 = binade.transpose %1 {permutation = array<i64: 1, 0, 2>} : (tensor<4x16x32xf32>) -> tensor<16x4x32xf32>
  %3 = binade.reduce_max %2 {axes = array<i64: 2>} : (tensor<16x4x32xf32>) -> tensor<16x4xf32>
  %4 = binade.reduce_max %2 {axes = array<i64: 0>} : (tensor<16x4x32xf32>) -> tensor<4x32xf32>
  return %3, %4 : tensor<16x4xf32>, tensor<4x32xf32>
}

// -----

// What a kernel reads from elsewhere is not computed by it: the sum of a square matrix and
// of its slices takes two kernels.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[E:.*]] = binade.launch [@exp_0](%arg0)
// CHECK-NEXT:    %[[Y:.*]] = binade.launch [@add_1](%[[E]])
// CHECK-NEXT:    return %[[Y]]
func.func @step(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %0 = binade.exp %x : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %1 = binade.slice %0 {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<4x32xf32>) -> tensor<4x16xf32>
  %2 = binade.slice %0 {offsets = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<4x32xf32>) -> tensor<4x16xf32>
  %3 = binade.concat %2, %1 {axis = 1} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x32xf32>
  %4 = binade.add %0, %3 : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  return %4 : tensor<4x32xf32>
}

// -----

// A matmul reads from memory, vectors stay contiguous, and what another phase reads is
// stored.

// CHECK-LABEL: func.func @step
// CHECK:         %[[A:.*]] = binade.launch [@slice_{{[0-9]+}}](%arg0)
// CHECK:         binade.matmul %[[A]], %[[A]] {transpose_rhs}
// CHECK:         %[[B:.*]] = binade.launch [@transpose_{{[0-9]+}}](%arg1)
// CHECK:         binade.launch [@exp_{{[0-9]+}}](%[[B]])
// CHECK:         %[[C:.*]] = binade.launch [@slice_{{[0-9]+}}](%arg0)
// CHECK-NEXT:    %[[S:.*]] = binade.save %[[C]]
// CHECK-NEXT:    binade.launch [@exp_{{[0-9]+}}](%[[S]]) {binade.phase = #binade.phase<backward>}
func.func @step(%x: tensor<16x32xf32>, %y: tensor<16x32xf32>)
    -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x16xf32>) {
  %0 = binade.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<16x32xf32>) -> tensor<16x16xf32>
  %1 = binade.matmul %0, %0 {transpose_rhs} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = binade.exp %0 : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = binade.transpose %y {permutation = array<i64: 1, 0>} : (tensor<16x32xf32>) -> tensor<32x16xf32>
  %4 = binade.exp %3 : (tensor<32x16xf32>) -> tensor<32x16xf32>
  %5 = binade.slice %x {offsets = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<16x32xf32>) -> tensor<16x16xf32>
  %6 = binade.save %5 : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %7 = binade.exp %6 {binade.phase = #binade.phase<backward>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1, %2, %4, %7 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x16xf32>
}

// -----

// A transpose that a matmul reads has a kernel of its own, which computes the elementwise
// ops before it.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[T:.*]] = binade.launch [@exp_transpose_0](%arg0) : (tensor<4x16x32xf32>) -> tensor<16x4x32xbf16>
// CHECK-NEXT:    %[[R:.*]] = binade.reshape %[[T]]
// CHECK-NEXT:    binade.matmul %[[R]], %[[R]]
func.func @step(%x: tensor<4x16x32xf32>) -> tensor<64x64xf32> {
  %0 = binade.exp %x : (tensor<4x16x32xf32>) -> tensor<4x16x32xf32>
  %1 = binade.cast %0 : (tensor<4x16x32xf32>) -> tensor<4x16x32xbf16>
  %2 = binade.transpose %1 {permutation = array<i64: 1, 0, 2>} : (tensor<4x16x32xbf16>) -> tensor<16x4x32xbf16>
  %3 = binade.reshape %2 : (tensor<16x4x32xbf16>) -> tensor<64x32xbf16>
  %4 = binade.matmul %3, %3 {transpose_rhs} : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}

// -----

// A kernel reads a view of a widening cast as it reads the cast: neither is stored.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[S:.*]] = binade.launch [@reduce_sum_0](%arg0) : (tensor<2x4x16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:    return %[[S]]
func.func @step(%x: tensor<2x4x16xbf16>) -> tensor<16xf32> {
  %0 = binade.cast %x : (tensor<2x4x16xbf16>) -> tensor<2x4x16xf32>
  %1 = binade.reshape %0 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
  %2 = binade.reduce_sum %1 {axes = array<i64: 0>} : (tensor<8x16xf32>) -> tensor<16xf32>
  return %2 : tensor<16xf32>
}
