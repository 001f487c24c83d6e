// RUN: binade-opt %s --split-input-file --binade-set-cuda-target --binade-expand-composites | FileCheck %s
// RUN: binade-opt %s --split-input-file --binade-set-cuda-target=chip=sm_89 --binade-expand-composites | FileCheck %s --check-prefix=WITHOUT
// RUN: binade-opt %s --split-input-file --binade-set-cuda-target=chip=sm_100 --binade-expand-composites | FileCheck %s --check-prefix=WITHOUT

// Only the library of one chip multiplies quantized operands with scales per block.

// WITHOUT: binade.target = #binade.target<{{.*}}multiple = 16{{[,>]}}
// WITHOUT-NOT: scaled_matmul

#row = #binade.quantized<f8E4M3FN, per_block<1, 128>, scale = f32, rule = inverse_power>
#block = #binade.quantized<f8E4M3FN, per_block<128, 128>, scale = f32, rule = inverse_power>

// Scales of rows are contiguous along rows, those of blocks along the summed axis (padded).

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[XS:.*]] = binade.transpose %arg1 {permutation = array<i64: 1, 0>} : (tensor<32x3xf32>) -> tensor<3x32xf32>
// CHECK-DAG:     %[[WS:.*]] = binade.pad %arg3 {{.*}} (tensor<2x3xf32>) -> tensor<2x4xf32>
// CHECK:         binade.scaled_matmul %arg0, %[[XS]], %arg2, %[[WS]] {block = array<i64: 1, 128, 128>} : (tensor<32x320xf8E4M3FN>, tensor<3x32xf32>, tensor<144x320xf8E4M3FN>, tensor<2x4xf32>) -> tensor<32x144xf32>
// CHECK:         binade.add
func.func @step(%x: tensor<32x320xf8E4M3FN>, %xs: tensor<32x3xf32>, %w: tensor<144x320xf8E4M3FN>, %ws: tensor<2x3xf32>,
                %bias: tensor<144xf32>) -> tensor<32x144xbf16> {
  %0 = binade.dequantize %x, %xs {format = #row} : (tensor<32x320xf8E4M3FN>, tensor<32x3xf32>) -> tensor<32x320xf32>
  %1 = binade.dequantize %w, %ws {format = #block} : (tensor<144x320xf8E4M3FN>, tensor<2x3xf32>) -> tensor<144x320xf32>
  %y = binade.matmul %0, %1, %bias {transpose_rhs} : (tensor<32x320xf32>, tensor<144x320xf32>, tensor<144xf32>) -> tensor<32x144xbf16>
  return %y : tensor<32x144xbf16>
}

// -----

#row = #binade.quantized<f8E4M3FN, per_block<1, 128>, scale = f32, rule = inverse_power>
#block = #binade.quantized<f8E4M3FN, per_block<128, 128>, scale = f32, rule = inverse_power>

// A weight that is not transposed: its elements and scales are transposed first.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[W:.*]] = binade.transpose %arg2 {{.*}} -> tensor<144x512xf8E4M3FN>
// CHECK-DAG:     %[[WS:.*]] = binade.transpose %arg3 {{.*}} -> tensor<2x4xf32>
// CHECK:         binade.scaled_matmul %arg0, %{{.*}}, %[[W]], %[[WS]] {block = array<i64: 1, 128, 128>}
func.func @step(%x: tensor<32x512xf8E4M3FN>, %xs: tensor<32x4xf32>, %w: tensor<512x144xf8E4M3FN>, %ws: tensor<4x2xf32>)
    -> tensor<32x144xbf16> {
  %0 = binade.dequantize %x, %xs {format = #row} : (tensor<32x512xf8E4M3FN>, tensor<32x4xf32>) -> tensor<32x512xf32>
  %1 = binade.dequantize %w, %ws {format = #block} : (tensor<512x144xf8E4M3FN>, tensor<4x2xf32>) -> tensor<512x144xf32>
  %y = binade.matmul %0, %1 : (tensor<32x512xf32>, tensor<512x144xf32>) -> tensor<32x144xbf16>
  return %y : tensor<32x144xbf16>
}

// -----

#column = #binade.quantized<f8E4M3FN, per_block<128, 1>, scale = f32, rule = inverse_power>

// The gradient of a weight sums along columns, for which scales of columns have the right order.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[DY:.*]] = binade.transpose %arg2 {{.*}} -> tensor<48x256xf8E4M3FN>
// CHECK-DAG:     %[[X:.*]] = binade.transpose %arg0 {{.*}} -> tensor<64x256xf8E4M3FN>
// CHECK:         binade.scaled_matmul %[[DY]], %arg3, %[[X]], %arg1 {block = array<i64: 1, 1, 128>} : (tensor<48x256xf8E4M3FN>, tensor<2x48xf32>, tensor<64x256xf8E4M3FN>, tensor<2x64xf32>) -> tensor<48x64xf32>
func.func @step(%x: tensor<256x64xf8E4M3FN>, %xs: tensor<2x64xf32>, %dy: tensor<256x48xf8E4M3FN>, %dys: tensor<2x48xf32>)
    -> tensor<48x64xf32> {
  %0 = binade.dequantize %x, %xs {format = #column} : (tensor<256x64xf8E4M3FN>, tensor<2x64xf32>) -> tensor<256x64xf32>
  %1 = binade.dequantize %dy, %dys {format = #column} : (tensor<256x48xf8E4M3FN>, tensor<2x48xf32>) -> tensor<256x48xf32>
  %dw = binade.matmul %1, %0 {transpose_lhs} : (tensor<256x48xf32>, tensor<256x64xf32>) -> tensor<48x64xf32>
  return %dw : tensor<48x64xf32>
}

// -----

#row = #binade.quantized<f8E4M3FN, per_block<1, 128>, scale = f32, rule = inverse_power>

// Scales in one column are reshaped, not transposed.

// CHECK-LABEL: func.func @step
// CHECK:         %[[S:.*]] = binade.reshape %arg1 : (tensor<32x1xf32>) -> tensor<1x32xf32>
// CHECK:         binade.scaled_matmul %arg0, %[[S]], %arg0, %{{.*}} {block = array<i64: 1, 1, 128>}
func.func @step(%x: tensor<32x64xf8E4M3FN>, %xs: tensor<32x1xf32>) -> tensor<32x32xf32> {
  %0 = binade.dequantize %x, %xs {format = #row} : (tensor<32x64xf8E4M3FN>, tensor<32x1xf32>) -> tensor<32x64xf32>
  %y = binade.matmul %0, %0 {transpose_rhs} : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x32xf32>
  return %y : tensor<32x32xf32>
}

// -----

#row = #binade.quantized<f8E4M3FN, per_block<1, 128>, scale = f32, rule = inverse_power>
#block = #binade.quantized<f8E4M3FN, per_block<128, 128>, scale = f32, rule = inverse_power>

// Blocks on both sides, groups that are not along what is summed, and scales of rows that
// are not a multiple of 16 bytes, are multiplied in bf16.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     scaled_matmul
// CHECK-COUNT-3: binade.matmul {{.*}}xbf16>) ->
func.func @step(%w: tensor<128x128xf8E4M3FN>, %ws: tensor<1x1xf32>, %x: tensor<128x128xf8E4M3FN>, %xs: tensor<128x1xf32>,
                %z: tensor<6x128xf8E4M3FN>, %zs: tensor<6x1xf32>)
    -> (tensor<128x128xf32>, tensor<128x128xf32>, tensor<6x128xf32>) {
  %0 = binade.dequantize %w, %ws {format = #block} : (tensor<128x128xf8E4M3FN>, tensor<1x1xf32>) -> tensor<128x128xf32>
  %1 = binade.dequantize %x, %xs {format = #row} : (tensor<128x128xf8E4M3FN>, tensor<128x1xf32>) -> tensor<128x128xf32>
  %2 = binade.dequantize %z, %zs {format = #row} : (tensor<6x128xf8E4M3FN>, tensor<6x1xf32>) -> tensor<6x128xf32>
  %both = binade.matmul %0, %0 : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %along = binade.matmul %1, %0 {transpose_lhs} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %few = binade.matmul %2, %0 : (tensor<6x128xf32>, tensor<128x128xf32>) -> tensor<6x128xf32>
  return %both, %along, %few : tensor<128x128xf32>, tensor<128x128xf32>, tensor<6x128xf32>
}
