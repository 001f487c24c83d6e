// RUN: binade-opt %s --split-input-file --binade-write-transposed-operands --binade-form-kernels | FileCheck %s

// Quantized values that the backward pass reads by columns are written in both orders by
// the kernel that quantizes them, also through reshapes. The transposed copy is saved.

#e4m3 = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>} {

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[CODES:.*]]:2 = binade.launch [@[[K:.*]]](%arg0, %arg1) : (tensor<4x16x32xf32>, tensor<f32>) -> (tensor<4x16x32xf8E4M3FN>, tensor<32x4x16xf8E4M3FN>)
// CHECK-DAG:     %[[KEPT:.*]] = binade.reshape %[[CODES]]#1 : (tensor<32x4x16xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
// CHECK-DAG:     %[[SAVED:.*]] = binade.save %[[KEPT]]
// CHECK-DAG:     %[[ROWS:.*]] = binade.reshape %[[CODES]]#0 : (tensor<4x16x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
// CHECK:         binade.scaled_matmul %[[ROWS]], %arg1, %arg2
// CHECK:         binade.scaled_matmul %arg3, %arg1, %[[SAVED]], %arg1
// CHECK:       func.func private @[[K]]
// CHECK:         %[[C:.*]] = binade.encode
// CHECK-NEXT:    %[[T:.*]] = binade.transpose %[[C]] {permutation = array<i64: 2, 0, 1>}
// CHECK-NEXT:    return %[[C]], %[[T]]
func.func @step(%x: tensor<4x16x32xf32>, %s: tensor<f32>, %w: tensor<48x32xf8E4M3FN>, %dy: tensor<48x64xf8E4M3FN>)
    -> (tensor<64x48xbf16>, tensor<48x32xf32>) {
  %0 = binade.encode %x, %s {format = #e4m3, saturate} : (tensor<4x16x32xf32>, tensor<f32>) -> tensor<4x16x32xf8E4M3FN>
  %1 = binade.reshape %0 : (tensor<4x16x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
  %2 = binade.save %1 : (tensor<64x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
  %y = binade.scaled_matmul %1, %s, %w, %s : (tensor<64x32xf8E4M3FN>, tensor<f32>, tensor<48x32xf8E4M3FN>, tensor<f32>) -> tensor<64x48xbf16>
  %3 = binade.transpose %2 {permutation = array<i64: 1, 0>, binade.phase = #binade.phase<backward>} : (tensor<64x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  %dw = binade.scaled_matmul %dy, %s, %3, %s {binade.phase = #binade.phase<backward>}
    : (tensor<48x64xf8E4M3FN>, tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<f32>) -> tensor<48x32xf32>
  return %y, %dw : tensor<64x48xbf16>, tensor<48x32xf32>
}
}

// -----

// The same kernel computes the absmax of the encoded values.

#e4m3 = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>} {

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    binade.launch [@[[K:.*]]](%arg0, %arg1) : (tensor<64x32xf32>, tensor<f32>) -> (tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<f32>)
// CHECK-NEXT:    return
// CHECK:       func.func private @[[K]]{{.*}}binade.schedule<full_reduction>
func.func @step(%x: tensor<64x32xf32>, %s: tensor<f32>) -> (tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<f32>) {
  %0 = binade.encode %x, %s {format = #e4m3, saturate} : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf8E4M3FN>
  %1 = binade.abs %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = binade.reduce_max %1 {axes = array<i64: 0, 1>} : (tensor<64x32xf32>) -> tensor<f32>
  %3 = binade.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<64x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  return %0, %3, %2 : tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<f32>
}
}

// -----

// Not where the original order is saved, too, nor in a kernel that reduces rows, nor for
// elements of more than a byte, nor where 30 columns are not a multiple of a word.

#e4m3 = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>} {

// CHECK-LABEL: func.func @step
// CHECK-COUNT-4: binade.launch [@transpose_
func.func @step(%x: tensor<64x32xf32>, %s: tensor<f32>, %odd: tensor<64x30xf32>)
    -> (tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<32x64xbf16>, tensor<30x64xf8E4M3FN>) {
  %0 = binade.encode %x, %s {format = #e4m3, saturate} : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf8E4M3FN>
  %1 = binade.save %0 : (tensor<64x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
  %2 = binade.transpose %1 {permutation = array<i64: 1, 0>, binade.phase = #binade.phase<backward>} : (tensor<64x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  %3 = binade.neg %1 {binade.phase = #binade.phase<backward>} : (tensor<64x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
  %4 = binade.softmax %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %5 = binade.encode %4, %s {format = #e4m3, saturate} : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf8E4M3FN>
  %6 = binade.transpose %5 {permutation = array<i64: 1, 0>} : (tensor<64x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  %7 = binade.cast %x : (tensor<64x32xf32>) -> tensor<64x32xbf16>
  %8 = binade.transpose %7 {permutation = array<i64: 1, 0>} : (tensor<64x32xbf16>) -> tensor<32x64xbf16>
  %9 = binade.encode %odd, %s {format = #e4m3, saturate} : (tensor<64x30xf32>, tensor<f32>) -> tensor<64x30xf8E4M3FN>
  %10 = binade.transpose %9 {permutation = array<i64: 1, 0>} : (tensor<64x30xf8E4M3FN>) -> tensor<30x64xf8E4M3FN>
  return %3, %2, %6, %8, %10 : tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<32x64xbf16>, tensor<30x64xf8E4M3FN>
}
}

// -----

// On CPUs, the transpose stays a kernel of its own.

#e4m3 = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>

// CHECK-LABEL: func.func @step
// CHECK:         binade.launch [@encode_
// CHECK:         binade.launch [@transpose_
func.func @step(%x: tensor<64x32xf32>, %s: tensor<f32>) -> (tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>) {
  %0 = binade.encode %x, %s {format = #e4m3, saturate} : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf8E4M3FN>
  %3 = binade.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<64x32xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  return %0, %3 : tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>
}
