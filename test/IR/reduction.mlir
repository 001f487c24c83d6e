// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @axes
func.func @axes(%x: tensor<2x3x4xf32>) -> (tensor<3x4xf32>, tensor<2x3xbf16>, tensor<f32>) {
  // CHECK-NEXT: binade.reduce_sum %arg0 {axes = array<i64: 0>} : (tensor<2x3x4xf32>) -> tensor<3x4xf32>
  %0 = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<2x3x4xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: binade.reduce_mean %arg0 {axes = array<i64: 2>} : (tensor<2x3x4xf32>) -> tensor<2x3xbf16>
  %1 = binade.reduce_mean %x {axes = array<i64: 2>} : (tensor<2x3x4xf32>) -> tensor<2x3xbf16>
  // CHECK-NEXT: binade.reduce_max %arg0 {axes = array<i64: 0, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<f32>
  %2 = binade.reduce_max %x {axes = array<i64: 0, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<f32>
  return %0, %1, %2 : tensor<3x4xf32>, tensor<2x3xbf16>, tensor<f32>
}
