// RUN: binade-opt %s --binade-expand-composites | FileCheck %s

// If scales are powers of two, bf16 represents the dequantized values for any block shape,
// and the bias stays.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[X:.*]] = binade.dequantize %arg0, %arg1 {{.*}} -> tensor<4x64xbf16>
// CHECK-DAG:     %[[W:.*]] = binade.dequantize %arg2, %arg3 {{.*}} -> tensor<64x64xbf16>
// CHECK:         %[[Y:.*]] = binade.matmul %[[X]], %[[W]], %arg4 : (tensor<4x64xbf16>, tensor<64x64xbf16>, tensor<64xf32>) -> tensor<4x64xf32>

// With one scale per operand, the remaining factor multiplies the sum.

// CHECK:         %[[C:.*]] = binade.cast %arg5 : (tensor<4x64xf8E4M3FN>) -> tensor<4x64xbf16>
// CHECK:         %[[SUM:.*]] = binade.matmul %[[C]], %{{.*}} : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xf32>
// CHECK:         %[[S:.*]] = binade.broadcast %arg6
// CHECK:         binade.mul %[[SUM]], %[[S]]

// Values that bf16 cannot represent are multiplied in f32.

// CHECK:         binade.matmul %{{.*}}, %{{.*}} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
// CHECK:         return

func.func @step(%x: tensor<4x64xf8E4M3FN>, %xs: tensor<8xf8E8M0FNU>, %w: tensor<64x64xf8E4M3FN>, %ws: tensor<1x1xf32>,
                %bias: tensor<64xf32>, %t: tensor<4x64xf8E4M3FN>, %ts: tensor<f32>, %gs: tensor<8xf32>)
    -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>) {
  %a = binade.dequantize %x, %xs {format = #binade.quantized<f8E4M3FN, per_group<32>, scale = f8E8M0FNU, rule = round_up>}
    : (tensor<4x64xf8E4M3FN>, tensor<8xf8E8M0FNU>) -> tensor<4x64xf32>
  %b = binade.dequantize %w, %ws {format = #binade.quantized<f8E4M3FN, per_block<128, 128>, scale = f32, rule = inverse_power>}
    : (tensor<64x64xf8E4M3FN>, tensor<1x1xf32>) -> tensor<64x64xf32>
  %c = binade.dequantize %t, %ts {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>}
    : (tensor<4x64xf8E4M3FN>, tensor<f32>) -> tensor<4x64xf32>
  %d = binade.dequantize %x, %gs {format = #binade.quantized<f8E4M3FN, per_group<32>, scale = f32>}
    : (tensor<4x64xf8E4M3FN>, tensor<8xf32>) -> tensor<4x64xf32>
  %0 = binade.matmul %a, %b, %bias : (tensor<4x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %1 = binade.matmul %c, %b : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %2 = binade.matmul %d, %b : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  return %0, %1, %2 : tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>
}
