// RUN: binade-opt %s --binade-expand-composites | FileCheck %s
// RUN: binade-opt %s --binade-set-cuda-target --binade-expand-composites | FileCheck %s

// bf16 represents elements times the scales of blocks. The scales of both tensors multiply the
// sum, before the bias is added.

#row = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_inverse>
#square = #binade.quantized<f4E2M1FN, per_block<16, 16>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_inverse>

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[X:.*]] = binade.dequantize %arg0, %arg1 {format = #binade.quantized<f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, rule = rounded_inverse>} : {{.*}} -> tensor<4x64xbf16>
// CHECK-DAG:     %[[W:.*]] = binade.dequantize %arg3, %arg4 {format = #binade.quantized<f4E2M1FN, per_block<16, 16>, scale = f8E4M3FN, rule = rounded_inverse>} : {{.*}} -> tensor<64x32xbf16>
// CHECK:         %[[SUM:.*]] = binade.matmul %[[X]], %[[W]] {{.*}}: (tensor<4x64xbf16>, tensor<64x32xbf16>) -> tensor<4x32xf32>
// CHECK:         %[[SCALE:.*]] = binade.mul %arg2, %arg5 : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK:         %[[ALL:.*]] = binade.broadcast %[[SCALE]]
// CHECK:         %[[SCALED:.*]] = binade.mul %[[SUM]], %[[ALL]]
// CHECK:         binade.add %[[SCALED]]
func.func @step(%x: tensor<4x64xi8>, %xs: tensor<4x4xf8E4M3FN>, %xt: tensor<f32>,
                %w: tensor<64x32xi8>, %ws: tensor<4x2xf8E4M3FN>, %wt: tensor<f32>, %bias: tensor<32xf32>) -> tensor<4x32xf32> {
  %a = binade.dequantize %x, %xs, %xt {format = #row} : (tensor<4x64xi8>, tensor<4x4xf8E4M3FN>, tensor<f32>) -> tensor<4x64xf32>
  %b = binade.dequantize %w, %ws, %wt {format = #square} : (tensor<64x32xi8>, tensor<4x2xf8E4M3FN>, tensor<f32>) -> tensor<64x32xf32>
  %y = binade.matmul %a, %b, %bias : (tensor<4x64xf32>, tensor<64x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}
