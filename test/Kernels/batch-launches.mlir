// RUN: binade-opt %s --binade-set-cuda-target --binade-form-kernels --binade-batch-launches --split-input-file | FileCheck %s
// RUN: binade-opt %s --binade-form-kernels --binade-batch-launches --split-input-file | FileCheck %s --check-prefix=CPU

// Two weights of one shape are cast in one launch, before the first matmul. The view of a
// result follows it. The third weight is cast before them: what depends only on arguments
// and is small comes first.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@{{[^,]*}}](%arg2)
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@[[CAST:.*]], @[[CAST]]](%arg1, %arg0)
// CHECK-SAME:      -> (tensor<64x64xbf16>, tensor<64x64xbf16>)
// CHECK-NEXT:    %[[V:.*]] = binade.save %[[A]]#0
// CHECK-NEXT:    %[[M:.*]] = binade.matmul %[[A]]#1, %[[V]]
// CHECK-NEXT:    binade.matmul %[[A]]#1, %[[B]]
// CHECK:       func.func private @[[CAST]]
// CHECK-SAME:    binade.batched

// CPU-LABEL:   func.func @step
// CPU-NEXT:      %{{.*}} = binade.launch [@{{[^,]*}}](%arg1)
func.func @step(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %c: tensor<64x32xf32>)
    -> (tensor<64x64xf32>, tensor<64x32xf32>) {
  %0 = binade.cast %a : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %1 = binade.cast %b : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %3 = binade.save %1 : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %4 = binade.matmul %0, %3 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  %5 = binade.cast %c : (tensor<64x32xf32>) -> tensor<64x32xbf16>
  %6 = binade.matmul %0, %5 : (tensor<64x64xbf16>, tensor<64x32xbf16>) -> tensor<64x32xf32>
  return %4, %6 : tensor<64x64xf32>, tensor<64x32xf32>
}

// -----

// A launch is not executed together with one whose result it reads, directly or through a
// view. The second launches of both chains are.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@[[K:.*]], @[[K]]](%arg0, %arg1)
// CHECK-NEXT:    %[[V:.*]] = binade.reshape %[[A]]#1
// CHECK-NEXT:    %[[W:.*]] = binade.reshape %[[V]]
// CHECK-NEXT:    %[[B:.*]]:2 = binade.launch [@[[K]], @[[K]]](%[[A]]#0, %[[W]])
// CHECK-NEXT:    return %[[B]]#0, %[[B]]#1

// CPU-LABEL: func.func @step
func.func private @k(%x: tensor<8x64xf32>) -> tensor<8x64xf32>
    attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %y = binade.softmax %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}
func.func @step(%x: tensor<8x64xf32>, %z: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %0 = binade.launch [@k](%x) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = binade.launch [@k](%0) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = binade.launch [@k](%z) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %3 = binade.reshape %2 : (tensor<8x64xf32>) -> tensor<512xf32>
  %4 = binade.reshape %3 : (tensor<512xf32>) -> tensor<8x64xf32>
  %5 = binade.launch [@k](%4) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %1, %5 : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// A launch that depends on another one, one of another phase, and one with a workspace are
// not merged.

// CHECK-LABEL: func.func @step
// CHECK:         %[[A:.*]] = binade.launch [@exp_0](%arg0)
// CHECK:         binade.launch [@exp_0](%arg0) {binade.phase = #binade.phase<backward>}
// CHECK:         binade.launch [@[[MAX:.*]]](%arg1) : (tensor<65536xf32>) -> tensor<f32>
// CHECK:         binade.launch [@[[MAX]]](%arg2) : (tensor<65536xf32>) -> tensor<f32>
// CHECK:         %[[M:.*]] = binade.matmul %[[A]], %[[A]]
// CHECK:         binade.launch [@exp_0](%[[M]])
// CHECK-NOT:     binade.batched
func.func @step(%x: tensor<64x64xf32>, %y: tensor<65536xf32>, %z: tensor<65536xf32>)
    -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<f32>) {
  %0 = binade.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = binade.matmul %0, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = binade.exp %1 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = binade.exp %x {binade.phase = #binade.phase<backward>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = binade.reduce_max %y {axes = array<i64: 0>} : (tensor<65536xf32>) -> tensor<f32>
  %5 = binade.reduce_max %z {axes = array<i64: 0>} : (tensor<65536xf32>) -> tensor<f32>
  return %2, %3, %4, %5 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<f32>
}
