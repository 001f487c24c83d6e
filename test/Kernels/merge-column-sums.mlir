// RUN: binade-opt %s --binade-form-kernels --split-input-file | FileCheck %s

// On a GPU, reductions of columns join a kernel of rows that reads or computes their
// operand.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:4 = binade.launch [@layer_norm_grad_reduce_sum_0](%arg0, %arg1, %arg2, %arg3, %arg4)
// CHECK-NEXT:    return %[[A]]#0, %[[A]]#1, %[[A]]#2, %[[A]]#3
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%dy: tensor<8x64xf32>, %x: tensor<8x64xf32>, %w: tensor<64xf32>, %m: tensor<8xf32>, %r: tensor<8xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = binade.layer_norm_grad %dy, %x, %w, %m, %r : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<64xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x64xf32>
  %1, %2 = binade.layer_norm_param_grad %dy, %x, %m, %r : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  %3 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<8x64xf32>) -> tensor<64xf32>
  return %0, %1, %2, %3 : tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
}

// -----

// A kernel of rows that depends on the reduction stays separate.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@reduce_sum_0](%arg0)
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@add_softmax_1](%arg0, %[[A]])
// CHECK-NEXT:    return %[[A]], %[[B]]
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%x: tensor<8x64xf32>) -> (tensor<64xf32>, tensor<8x64xf32>) {
  %0 = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<8x64xf32>) -> tensor<64xf32>
  %1 = binade.broadcast %0 {axes = array<i64: 1>} : (tensor<64xf32>) -> tensor<8x64xf32>
  %2 = binade.add %x, %1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %3 = binade.softmax %2 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %0, %3 : tensor<64xf32>, tensor<8x64xf32>
}
}

// -----

// Without a kernel of rows, they join an elementwise kernel that reads or computes their
// operand.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@relu_grad_reduce_sum_0](%arg0, %arg1)
// CHECK-NEXT:    %[[B:.*]] = binade.matmul %[[A]]#0, %arg2
// CHECK-NEXT:    return %[[B]], %[[A]]#1
// CHECK:       func.func private @relu_grad_reduce_sum_0
// CHECK-SAME:    #binade.schedule<column_reduction>
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%dy: tensor<8x64xbf16>, %y: tensor<8x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<8x64xbf16>, tensor<64xf32>) {
  %0 = binade.relu_grad %dy, %y : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %1 = binade.matmul %0, %w : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  %2 = binade.cast %0 : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %3 = binade.reduce_sum %2 {axes = array<i64: 0>} : (tensor<8x64xf32>) -> tensor<64xf32>
  return %1, %3 : tensor<8x64xbf16>, tensor<64xf32>
}
}

// -----

// They stay separate if the kernel could not load vectors of eight elements, or if it is
// going to write a transposed copy of a result.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@neg_0](%arg0)
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@reduce_sum_1](%[[A]])
// CHECK-NEXT:    %[[C:.*]]:2 = binade.launch [@cast_transpose_2](%arg1)
// CHECK-NEXT:    %[[D:.*]] = binade.launch [@reduce_sum_3](%arg1)
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%x: tensor<8x67xf32>, %y: tensor<32x64xf32>) -> (tensor<8x67xf32>, tensor<67xf32>, tensor<32x64xf8E4M3FN>, tensor<64x32xf8E4M3FN>, tensor<64xf32>) {
  %0 = binade.neg %x : (tensor<8x67xf32>) -> tensor<8x67xf32>
  %1 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<8x67xf32>) -> tensor<67xf32>
  %2 = binade.cast %y {saturate} : (tensor<32x64xf32>) -> tensor<32x64xf8E4M3FN>
  %3 = binade.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<32x64xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
  %4 = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<32x64xf32>) -> tensor<64xf32>
  return %0, %1, %2, %3, %4 : tensor<8x67xf32>, tensor<67xf32>, tensor<32x64xf8E4M3FN>, tensor<64x32xf8E4M3FN>, tensor<64xf32>
}
}

// -----

// Nothing changes on a CPU.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@reduce_sum_0](%arg0)
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@softmax_1](%arg0)
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @step(%x: tensor<8x64xf32>) -> (tensor<64xf32>, tensor<8x64xf32>) {
  %0 = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<8x64xf32>) -> tensor<64xf32>
  %1 = binade.softmax %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %0, %1 : tensor<64xf32>, tensor<8x64xf32>
}
