// RUN: binade-opt %s --binade-set-cuda-target --binade-expand-composites | FileCheck %s
// RUN: binade-opt %s --binade-set-cuda-target=chip=sm_80 --binade-expand-composites | FileCheck %s --check-prefix=WITHOUT
// RUN: not binade-opt %s --binade-set-cuda-target=chip=sm_70 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK: binade.target = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN, f8E5M2], multiple = 16, block = 128, attention = [f16, bf16], most = 128>
// WITHOUT: binade.target = #binade.target<"cuda:sm_80", piece = 16777216, attention = [f16, bf16], most = 128>
// WITHOUT-NOT: scaled_matmul
// UNKNOWN: unknown chip 'sm_70'; expected sm_80, sm_89, sm_90, sm_100

#e4m3 = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>
#e5m2 = #binade.quantized<f8E5M2, per_tensor, scale = f32>

// The summed axis must be contiguous: the last axis of the left operand, and of the right
// operand where it is transposed. Other operands are transposed first.

// CHECK-LABEL: func.func @step
// CHECK:         %[[Y:.*]] = binade.scaled_matmul %arg0, %arg1, %arg2, %arg3 : (tensor<32x64xf8E4M3FN>, tensor<f32>, tensor<48x64xf8E4M3FN>, tensor<f32>) -> tensor<32x48xbf16>
// CHECK:         %[[W:.*]] = binade.transpose %arg2 {permutation = array<i64: 1, 0>} : (tensor<48x64xf8E4M3FN>) -> tensor<64x48xf8E4M3FN>
// CHECK:         %[[DX:.*]] = binade.scaled_matmul %arg5, %arg6, %[[W]], %arg3
// CHECK:         %[[DY:.*]] = binade.transpose %arg5
// CHECK:         %[[X:.*]] = binade.transpose %arg0
// CHECK:         %[[DW:.*]] = binade.scaled_matmul %[[DY]], %arg6, %[[X]], %arg1 : (tensor<48x32xf8E5M2>, tensor<f32>, tensor<64x32xf8E4M3FN>, tensor<f32>) -> tensor<48x64xf32>

// A bias is added to the sum before rounding.

// CHECK:         %[[SUM:.*]] = binade.scaled_matmul %arg0, %arg1, %arg2, %arg3 {{.*}} -> tensor<32x48xf32>
// CHECK:         %[[BIAS:.*]] = binade.broadcast %arg4
// CHECK:         %[[BIASED:.*]] = binade.add %[[SUM]], %[[BIAS]]
// CHECK:         %[[ROUNDED:.*]] = binade.cast %[[BIASED]] : (tensor<32x48xf32>) -> tensor<32x48xbf16>

// One in the format of the result is added by the matmul.

// CHECK:         binade.scaled_matmul %arg0, %arg1, %arg2, %arg3, %arg11 : (tensor<32x64xf8E4M3FN>, tensor<f32>, tensor<48x64xf8E4M3FN>, tensor<f32>, tensor<48xbf16>) -> tensor<32x48xbf16>

// Two E5M2 operands, and rows that are not a multiple of 16 bytes, are multiplied in bf16.

// CHECK:         binade.matmul {{.*}} (tensor<32x48xbf16>, tensor<32x48xbf16>) -> tensor<32x32xf32>
// CHECK:         binade.matmul {{.*}} (tensor<32x40xbf16>, tensor<40x64xbf16>) -> tensor<32x64xf32>

// The library adds a bias of the result's format; others are added after the matmul.

// CHECK:         binade.matmul %{{[^,]*}}, %{{[^,]*}} : (tensor<32x64xbf16>, tensor<64x48xbf16>) -> tensor<32x48xf32>
// CHECK:         binade.matmul %{{[^,]*}}, %{{[^,]*}}, %arg4 : (tensor<32x64xbf16>, tensor<64x48xbf16>, tensor<48xf32>) -> tensor<32x48xf32>

func.func @step(%x: tensor<32x64xf8E4M3FN>, %xs: tensor<f32>, %w: tensor<48x64xf8E4M3FN>, %ws: tensor<f32>, %bias: tensor<48xf32>,
                %dy: tensor<32x48xf8E5M2>, %dys: tensor<f32>, %odd: tensor<32x40xf8E4M3FN>, %a: tensor<32x64xbf16>, %b: tensor<64x48xbf16>,
                %v: tensor<40x64xf8E4M3FN>, %narrow_bias: tensor<48xbf16>)
    -> (tensor<32x48xbf16>, tensor<32x64xbf16>, tensor<48x64xf32>, tensor<32x48xbf16>, tensor<32x48xbf16>, tensor<32x32xf32>,
        tensor<32x64xf32>, tensor<32x48xbf16>, tensor<32x48xf32>) {
  %0 = binade.dequantize %x, %xs {format = #e4m3} : (tensor<32x64xf8E4M3FN>, tensor<f32>) -> tensor<32x64xf32>
  %1 = binade.dequantize %w, %ws {format = #e4m3} : (tensor<48x64xf8E4M3FN>, tensor<f32>) -> tensor<48x64xf32>
  %2 = binade.dequantize %dy, %dys {format = #e5m2} : (tensor<32x48xf8E5M2>, tensor<f32>) -> tensor<32x48xf32>
  %3 = binade.dequantize %odd, %xs {format = #e4m3} : (tensor<32x40xf8E4M3FN>, tensor<f32>) -> tensor<32x40xf32>
  %4 = binade.dequantize %v, %xs {format = #e4m3} : (tensor<40x64xf8E4M3FN>, tensor<f32>) -> tensor<40x64xf32>
  %y = binade.matmul %0, %1 {transpose_rhs} : (tensor<32x64xf32>, tensor<48x64xf32>) -> tensor<32x48xbf16>
  %dx = binade.matmul %2, %1 : (tensor<32x48xf32>, tensor<48x64xf32>) -> tensor<32x64xbf16>
  %dw = binade.matmul %2, %0 {transpose_lhs} : (tensor<32x48xf32>, tensor<32x64xf32>) -> tensor<48x64xf32>
  %with = binade.matmul %0, %1, %bias {transpose_rhs} : (tensor<32x64xf32>, tensor<48x64xf32>, tensor<48xf32>) -> tensor<32x48xbf16>
  %with_narrow = binade.matmul %0, %1, %narrow_bias {transpose_rhs} : (tensor<32x64xf32>, tensor<48x64xf32>, tensor<48xbf16>) -> tensor<32x48xbf16>
  %both = binade.matmul %2, %2 {transpose_rhs} : (tensor<32x48xf32>, tensor<32x48xf32>) -> tensor<32x32xf32>
  %rest = binade.matmul %3, %4 : (tensor<32x40xf32>, tensor<40x64xf32>) -> tensor<32x64xf32>
  %narrow = binade.matmul %a, %b, %bias : (tensor<32x64xbf16>, tensor<64x48xbf16>, tensor<48xf32>) -> tensor<32x48xbf16>
  %wide = binade.matmul %a, %b, %bias : (tensor<32x64xbf16>, tensor<64x48xbf16>, tensor<48xf32>) -> tensor<32x48xf32>
  return %y, %dx, %dw, %with, %with_narrow, %both, %rest, %narrow, %wide
    : tensor<32x48xbf16>, tensor<32x64xbf16>, tensor<48x64xf32>, tensor<32x48xbf16>, tensor<32x48xbf16>, tensor<32x32xf32>,
      tensor<32x64xf32>, tensor<32x48xbf16>, tensor<32x48xf32>
}
