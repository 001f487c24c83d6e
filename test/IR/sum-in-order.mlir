// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @one_after_the_other
func.func @one_after_the_other(%x: tensor<8x16x3xf32>) -> tensor<8x1x3xf32> {
  // CHECK: binade.sum_in_order %{{.*}} {axis = 1 : i64} : (tensor<8x16x3xf32>) -> tensor<8x1x3xf32>
  %y = binade.sum_in_order %x {axis = 1 : i64} : (tensor<8x16x3xf32>) -> tensor<8x1x3xf32>
  return %y : tensor<8x1x3xf32>
}

// CHECK-LABEL: func.func @by_halves
func.func @by_halves(%x: tensor<128xf32>) -> tensor<1xf32> {
  // CHECK: binade.sum_in_order %{{.*}} {axis = 0 : i64, by_halves} : (tensor<128xf32>) -> tensor<1xf32>
  %y = binade.sum_in_order %x {axis = 0 : i64, by_halves} : (tensor<128xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
