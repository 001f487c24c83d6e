// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @dropout
func.func @dropout(%x: tensor<4x8xf32>, %rng: tensor<2xi64>) -> tensor<4x8xf32> {
  // CHECK-NEXT: binade.dropout %arg0, %arg1 {ratio = 1.000000e-01 : f64, stream = 3 : i64} : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x8xf32>
  %y = binade.dropout %x, %rng {ratio = 0.1 : f64, stream = 3 : i64}
    : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.dropout_grad %0, %arg1 {ratio = 1.000000e-01 : f64, stream = 3 : i64}
  %d = binade.dropout_grad %y, %rng {ratio = 0.1 : f64, stream = 3 : i64}
    : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @uniform
func.func @uniform(%index: tensor<8xi64>, %seed: tensor<8xi64>, %step: tensor<8xi64>) -> tensor<8xf32> {
  // CHECK-NEXT: binade.random_uniform %arg0, %arg1, %arg2 {stream = 0 : i64}
  %y = binade.random_uniform %index, %seed, %step {stream = 0 : i64}
    : (tensor<8xi64>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xf32>
  // CHECK-NEXT: binade.random_uniform %arg0, %arg1, %arg2 {per_counter = 4 : i64, stream = 1 : i64}
  %z = binade.random_uniform %index, %seed, %step {per_counter = 4 : i64, stream = 1 : i64}
    : (tensor<8xi64>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
