// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @rows
func.func @rows(%table: tensor<100x8xf32>, %indices: tensor<2x3xi64>) -> tensor<100x8xf32> {
  // CHECK-NEXT: binade.gather %arg0, %arg1 : (tensor<100x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  %y = binade.gather %table, %indices : (tensor<100x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  // CHECK-NEXT: binade.gather_grad %0, %arg1 : (tensor<2x3x8xf32>, tensor<2x3xi64>) -> tensor<100x8xf32>
  %d = binade.gather_grad %y, %indices : (tensor<2x3x8xf32>, tensor<2x3xi64>) -> tensor<100x8xf32>
  return %d : tensor<100x8xf32>
}

// CHECK-LABEL: func.func @one_row
func.func @one_row(%table: tensor<100xi32>, %index: tensor<i32>) -> tensor<i32> {
  // CHECK-NEXT: binade.gather
  %y = binade.gather %table, %index : (tensor<100xi32>, tensor<i32>) -> tensor<i32>
  return %y : tensor<i32>
}

// CHECK-LABEL: func.func @check
func.func @check(%labels: tensor<8xi64>, %rows: tensor<8xi64>) -> (tensor<8xi64>, tensor<8xi64>) {
  // CHECK-NEXT: binade.check_index %arg0 {high = 10 : i64, ignored = -100 : i64, low = 0 : i64} : (tensor<8xi64>) -> tensor<8xi64>
  %0 = binade.check_index %labels {low = 0 : i64, high = 10 : i64, ignored = -100 : i64} : (tensor<8xi64>) -> tensor<8xi64>
  // CHECK-NEXT: binade.check_index %arg1 {high = 5 : i64, low = -5 : i64}
  %1 = binade.check_index %rows {low = -5 : i64, high = 5 : i64} : (tensor<8xi64>) -> tensor<8xi64>
  return %0, %1 : tensor<8xi64>, tensor<8xi64>
}
