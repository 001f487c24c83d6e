// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<8x64xbf16>, %s: tensor<16xf32>) -> tensor<8x64xf32> {
  // CHECK: binade.hadamard %{{.*}} signs(%{{.*}}) {axis = -1 : i64, size = 16 : i64} : (tensor<8x64xbf16>, tensor<16xf32>) -> tensor<8x64xf32>
  %y = binade.hadamard %x signs(%s) {axis = -1 : i64, size = 16 : i64} : (tensor<8x64xbf16>, tensor<16xf32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @columns
func.func @columns(%x: tensor<2x128x3xf32>) -> tensor<2x128x3xf32> {
  // CHECK: binade.hadamard %{{.*}} {axis = -2 : i64, size = 128 : i64} : (tensor<2x128x3xf32>) -> tensor<2x128x3xf32>
  %y = binade.hadamard %x {axis = -2 : i64, size = 128 : i64} : (tensor<2x128x3xf32>) -> tensor<2x128x3xf32>
  return %y : tensor<2x128x3xf32>
}
