// RUN: binade-opt %s --binade-set-cuda-target --binade-expand-composites --cse | FileCheck %s

// A matmul reads the scale of an operand in f32. A scale in bf16 is cast where it is
// computed, once for all matmuls, and the result is what is saved.

#coat = #binade.quantized<f8E4M3FN, per_tensor, scale = bf16>

// CHECK-LABEL: func.func @step
// CHECK:         %[[SCALE:.*]], %{{.*}} = binade.choose_scale
// CHECK-NEXT:    %[[WIDE:.*]] = binade.cast %[[SCALE]] : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT:    %[[SAVED:.*]] = binade.save %[[WIDE]]
// CHECK-NOT:     binade.cast %
// CHECK:         binade.scaled_matmul %{{.*}}, %[[WIDE]], %arg1, %arg2
// CHECK-NOT:     binade.cast %
// CHECK:         binade.scaled_matmul %{{.*}}, %[[SAVED]], %arg1, %arg2 {binade.phase = #binade.phase<backward>}
func.func @step(%x: tensor<32x64xf32>, %w: tensor<48x64xf8E4M3FN>, %ws: tensor<f32>)
    -> (tensor<32x48xbf16>, tensor<32x48xbf16>) {
  %codes, %scale = binade.quantize %x {format = #coat, saturate}
    : (tensor<32x64xf32>) -> (tensor<32x64xf8E4M3FN>, tensor<bf16>)
  %0 = binade.save %codes : (tensor<32x64xf8E4M3FN>) -> tensor<32x64xf8E4M3FN>
  %1 = binade.save %scale : (tensor<bf16>) -> tensor<bf16>
  %2 = binade.dequantize %codes, %scale {format = #coat}
    : (tensor<32x64xf8E4M3FN>, tensor<bf16>) -> tensor<32x64xf32>
  %3 = binade.dequantize %w, %ws {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>}
    : (tensor<48x64xf8E4M3FN>, tensor<f32>) -> tensor<48x64xf32>
  %y = binade.matmul %2, %3 {transpose_rhs}
    : (tensor<32x64xf32>, tensor<48x64xf32>) -> tensor<32x48xbf16>
  %4 = binade.dequantize %0, %1 {format = #coat, binade.phase = #binade.phase<backward>}
    : (tensor<32x64xf8E4M3FN>, tensor<bf16>) -> tensor<32x64xf32>
  %z = binade.matmul %4, %3 {transpose_rhs, binade.phase = #binade.phase<backward>}
    : (tensor<32x64xf32>, tensor<48x64xf32>) -> tensor<32x48xbf16>
  return %y, %z : tensor<32x48xbf16>, tensor<32x48xbf16>
}
