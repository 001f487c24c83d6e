// RUN: binade-opt %s --binade-form-kernels --split-input-file | FileCheck %s

// On a GPU, groups that read the same tensors are one kernel, even if no op reads both.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@exp_reduce_max_0](%arg0, %arg1) : (tensor<4x64xf32>, tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4xf32>)
// CHECK-NEXT:    return %[[A]]#0, %[[A]]#1
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4xf32>) {
  %0 = binade.exp %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = binade.mul %x, %y : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %2 = binade.reduce_max %1 {axes = array<i64: 1>} : (tensor<4x64xf32>) -> tensor<4xf32>
  return %0, %2 : tensor<4x64xf32>, tensor<4xf32>
}
}

// -----

// They stay two kernels if one depends on the other, or if the first one would wait for
// what the second one reads: an op between them reads the first result.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@exp_0](%arg0)
// CHECK-NEXT:    %[[M:.*]] = binade.matmul %[[A]], %[[A]]
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@mul_1](%arg0, %[[M]])
// CHECK-NEXT:    %[[N:.*]] = binade.matmul %[[B]], %[[B]]
// CHECK-NEXT:    %[[P:.*]] = binade.matmul %arg1, %arg1
// CHECK-NEXT:    %[[C:.*]] = binade.launch [@mul_1](%arg0, %[[P]])
// CHECK-NEXT:    return %[[N]], %[[C]]
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = binade.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = binade.matmul %0, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = binade.mul %x, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = binade.matmul %2, %2 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = binade.matmul %y, %y : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %5 = binade.mul %x, %4 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3, %5 : tensor<64x64xf32>, tensor<64x64xf32>
}
}
