// RUN: binade-opt %s --binade-assign-precision=policy=fp8-hopper > %t.assigned.mlir
// RUN: FileCheck %s --check-prefix=ASSIGN < %t.assigned.mlir
// RUN: binade-opt %t.assigned.mlir --mlir-print-op-generic | binade-opt | diff - %t.assigned.mlir
// RUN: binade-opt %t.assigned.mlir --binade-materialize-precision > %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: binade-opt %t.mlir --binade-materialize-precision | diff - %t.mlir
// RUN: binade-opt %s --binade-assign-precision=policy=fp8-block-hopper --binade-materialize-precision \
// RUN:   | FileCheck %s --check-prefix=BLOCK
// RUN: not binade-opt %t.mlir --binade-set-cuda-target=chip=sm_90 2>&1 | FileCheck %s --check-prefix=CUDA

// The forward pass never promotes. The last layer is not quantized.

// ASSIGN-LABEL: func.func @step
// ASSIGN:         binade.matmul {{.*}}accumulation = <bits = 14, step = 32, promote = 0>, rule = "fp8-hopper.yaml:{{[0-9]+}}">
// ASSIGN:         binade.matmul {{.*}}result = bf16, rule =
// ASSIGN:         binade.matmul {{.*}}accumulation = <bits = 14, step = 32, promote = 128>, rule = {{.*}} transpose_lhs

// Elements are multiplied, the transposed ones of the activation and of the gradient for the
// gradient of the weight.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[H:.*]]:2 = binade.quantize %arg0
// CHECK-DAG:     %[[W:.*]]:2 = binade.quantize %arg1
// CHECK-DAG:     %[[WT:.*]] = binade.transpose %[[W]]#0 {permutation = array<i64: 1, 0>} : (tensor<256x48xf8E4M3FN>) -> tensor<48x256xf8E4M3FN>
// CHECK:         binade.scaled_matmul %[[H]]#0, %[[H]]#1, %[[WT]], %[[W]]#1 {accumulation = #binade.accumulation<bits = 14, step = 32, promote = 0>} : (tensor<144x256xf8E4M3FN>, tensor<f32>, tensor<48x256xf8E4M3FN>, tensor<f32>) -> tensor<144x48xbf16>
// CHECK:         binade.matmul
// CHECK:         binade.scaled_matmul {{.*}} {accumulation = #binade.accumulation<bits = 14, step = 32, promote = 128>, binade.phase = #binade.phase<backward>} : (tensor<256x144xf8E4M3FN>, tensor<f32>, tensor<48x144xf8E5M2>, tensor<f32>) -> tensor<256x48xbf16>
// CHECK-NOT:     binade.dequantize

// BLOCK-LABEL: func.func @step
// BLOCK:         binade.scaled_matmul {{.*}}, block = array<i64: 1, 48, 128>} : (tensor<144x256xf8E4M3FN>, tensor<2x144xf32>, tensor<48x256xf8E4M3FN>, tensor<1x2xf32>) -> tensor<144x48xbf16>
// BLOCK:         binade.scaled_matmul {{.*}}block = array<i64: 1, 1, 128>} : (tensor<256x144xf8E4M3FN>, tensor<2x256xf32>, tensor<48x144xf8E4M3FN>, tensor<2x48xf32>) -> tensor<256x48xbf16>

// CUDA: error: models an accumulator of 14 bits, which only the CPU computes; compile for the CPU, or with a policy without such 'accumulate', for example fp8-current: the GPU then adds products as its own matrix units do

func.func @step(%x: tensor<144x256xf32> {binade.name = "x", binade.role = #binade.role<batch>},
                %w: tensor<256x48xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                %l: tensor<48x1xf32> {binade.name = "l", binade.role = #binade.role<parameter>})
    -> (tensor<144x1xf32>, tensor<256x48xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %kept = binade.save %x : (tensor<144x256xf32>) -> tensor<144x256xf32>
  %y = binade.matmul %x, %w : (tensor<144x256xf32>, tensor<256x48xf32>) -> tensor<144x48xf32>
  %z = binade.matmul %y, %l : (tensor<144x48xf32>, tensor<48x1xf32>) -> tensor<144x1xf32>
  %g = binade.exp %y {binade.phase = #binade.phase<backward>} : (tensor<144x48xf32>) -> tensor<144x48xf32>
  %dw = binade.matmul %kept, %g {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<144x256xf32>, tensor<144x48xf32>) -> tensor<256x48xf32>
  return %z, %dw : tensor<144x1xf32>, tensor<256x48xf32>
}
