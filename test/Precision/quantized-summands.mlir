// RUN: binade-opt %s --binade-assign-precision=policy=mxfp8 --binade-materialize-precision > %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: binade-opt %t.mlir --binade-materialize-precision | diff - %t.mlir
// RUN: binade-opt %t.mlir --binade-expand-composites | FileCheck %s --check-prefix=EXPAND

// Elements that share a scale are summands of one sum. If the contraction sums over the
// rows of a weight, the blocks extend along its columns.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     binade.transpose
// CHECK-DAG:     %[[W:.*]]:2 = binade.quantize %arg1 {format = #binade.quantized<f8E4M3FN, per_block<32, 1>, scale = f8E8M0FNU, rule = round_up>
// CHECK-DAG:     %[[DECODED:.*]] = binade.dequantize %[[W]]#0, %[[W]]#1 {{.*}} -> tensor<64x32xf32>
// CHECK-DAG:     %[[X:.*]]:2 = binade.quantize %{{.*}}per_block<1, 32>{{.*}} : (tensor<4x64xf32>)
// CHECK:         binade.matmul %{{.*}}, %[[DECODED]]

// EXPAND-LABEL: func.func @step
// EXPAND:         %[[W:.*]] = binade.dequantize {{.*}} -> tensor<64x32xbf16>
// EXPAND:         binade.matmul %{{.*}}, %[[W]] {binade.fallback = {computed = "bf16", decided = "f8E4M3FN x f8E4M3FN", {{.*}}}} : (tensor<4x64xbf16>, tensor<64x32xbf16>) -> tensor<4x32xf32>
func.func @step(%x: tensor<4x64xf32> {binade.name = "x", binade.role = #binade.role<batch>},
                %w: tensor<64x32xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                %last: tensor<32x2xf32> {binade.name = "last", binade.role = #binade.role<parameter>}) -> tensor<4x2xf32> {
  %h = binade.tanh %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %y = binade.matmul %h, %w : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
  %z = binade.matmul %y, %last : (tensor<4x32xf32>, tensor<32x2xf32>) -> tensor<4x2xf32>
  return %z : tensor<4x2xf32>
}
