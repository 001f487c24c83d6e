// RUN: binade-opt %s --binade-form-kernels --split-input-file | FileCheck %s

// On a GPU, reductions of columns join a kernel of rows that reads or computes their operand.

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
