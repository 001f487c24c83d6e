// RUN: binade-opt %s --binade-set-cuda-target --binade-recompute-in-readers --binade-form-kernels --split-input-file | FileCheck %s
// RUN: binade-opt %s --binade-recompute-in-readers --binade-form-kernels --split-input-file | FileCheck %s --check-prefix=CPU

// The first kernel stores the sum, its statistic and the largest magnitudes, but not the
// norm of the sum, which the kernel that quantizes it computes again.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:3 = binade.launch [@[[FIRST:.*]]](%arg0, %arg1, %arg2)
// CHECK-SAME:      -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK-NEXT:    %[[L:.*]] = binade.launch {{.*}}(%[[A]]#2) : (tensor<8xf32>) -> tensor<f32>
// CHECK-NEXT:    %[[Q:.*]] = binade.launch [@[[SECOND:.*]]](%[[A]]#0, %[[A]]#1, %arg2, %[[L]])
// CHECK-NEXT:    return %[[A]]#0, %[[Q]]
// CHECK:       func.func private @[[SECOND]]
// CHECK:         binade.broadcast %arg1 {axes = array<i64: 0>}
// CHECK:         binade.mul %arg0
// CHECK:         binade.broadcast %arg2 {axes = array<i64: 1>}
// CHECK:         binade.mul
// CHECK-NEXT:    binade.encode

// CPU-LABEL:   func.func @step
// CPU-NEXT:      %{{.*}}:4 = binade.launch [@{{.*}}](%arg0, %arg1, %arg2)
// CPU-SAME:        -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
func.func @step(%x: tensor<8x64xf32>, %h: tensor<8x64xf32>, %w: tensor<64xf32>)
    -> (tensor<8x64xf32>, tensor<8x64xf8E4M3FN>) {
  %0 = binade.add %x, %h : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %y, %rstd = binade.rms_norm %0, %w {epsilon = 1.0e-5}
    : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>)
  %1 = binade.abs %y : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = binade.reduce_max %1 {axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  %3 = binade.reduce_max %2 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %4 = binade.encode %y, %3 {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>, saturate}
    : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf8E4M3FN>
  %5 = binade.save %rstd : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %4 : tensor<8x64xf32>, tensor<8x64xf8E4M3FN>
}

// -----

// A value that a matmul reads is stored. So is one that follows from more bytes, or by an
// exponential.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %{{.*}}:2 = binade.launch [@{{.*}}](%arg0, %arg1) : {{.*}} -> (tensor<64x64xbf16>, tensor<64xf32>)
// CHECK:         %{{.*}}:2 = binade.launch [@exp_{{.*}}](%arg2) : {{.*}} -> (tensor<64x64xf32>, tensor<64xf32>)
// CHECK:         %{{.*}}:2 = binade.launch [@mul_{{.*}}](%arg2) {{.*}} -> (tensor<64x64xf32>, tensor<64xf32>)
#e4m3 = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>
func.func @step(%x: tensor<64x64xf32>, %h: tensor<64x64xf32>, %z: tensor<64x64xbf16>)
    -> (tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<64x64xf32>) {
  %0 = binade.add %x, %h : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = binade.cast %0 : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %2 = binade.cast %1 : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %3 = binade.abs %2 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = binade.reduce_max %3 {axes = array<i64: 1>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %5 = binade.reduce_max %4 {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  %6 = binade.encode %2, %5 {format = #e4m3, saturate} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf8E4M3FN>
  %7 = binade.cast %z : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %8 = binade.exp %7 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %9 = binade.reduce_max %8 {axes = array<i64: 1>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %10 = binade.reduce_max %9 {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  %11 = binade.encode %8, %10 {format = #e4m3, saturate} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf8E4M3FN>
  %12 = binade.mul %7, %7 {binade.phase = #binade.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %13 = binade.reduce_max %12 {axes = array<i64: 1>, binade.phase = #binade.phase<backward>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %14 = binade.reduce_max %13 {axes = array<i64: 0>, binade.phase = #binade.phase<backward>} : (tensor<64xf32>) -> tensor<f32>
  %15 = binade.encode %12, %14 {format = #e4m3, saturate, binade.phase = #binade.phase<backward>} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf8E4M3FN>
  %16 = binade.matmul %12, %12 {binade.phase = #binade.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %6, %11, %15, %16 : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<64x64xf32>
}

// -----

// The product with a rounded value that was saved in 8 bits follows from 3 bytes per element;
// storing and loading it would take 4.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@{{.*}}](%arg1, %arg2, %arg0) : {{.*}} -> tensor<64xf32>
// CHECK:         binade.launch [@[[SECOND:.*]]](%arg0, %arg1, %arg2, %{{.*}}) : {{.*}} -> tensor<64x64xf8E5M2>
// CHECK:       func.func private @[[SECOND]]
// CHECK-NEXT:    binade.dequantize
// CHECK-NEXT:    binade.cast
// CHECK-NEXT:    binade.mul
// CHECK:         binade.encode
func.func @step(%dy: tensor<64x64xbf16>, %x: tensor<64x64xf8E4M3FN>, %s: tensor<256xbf16>)
    -> tensor<64x64xf8E5M2> {
  %0 = binade.dequantize %x, %s {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = bf16>}
    : (tensor<64x64xf8E4M3FN>, tensor<256xbf16>) -> tensor<64x64xf32>
  %1 = binade.cast %0 : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %2 = binade.mul %dy, %1 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %3 = binade.cast %2 : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %4 = binade.abs %3 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %5 = binade.reduce_max %4 {axes = array<i64: 1>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %6 = binade.reduce_max %5 {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  %7 = binade.encode %3, %6 {format = #binade.quantized<f8E5M2, per_tensor, scale = f32>, saturate}
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf8E5M2>
  return %7 : tensor<64x64xf8E5M2>
}
