// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @cross_entropy
func.func @cross_entropy(%logits: tensor<8x10xbf16>, %labels: tensor<8xi64>)
    -> (tensor<8x10xbf16>, tensor<f32>) {
  // CHECK-NEXT: binade.cross_entropy %arg0, %arg1 {ignore_index = -100 : i64} : (tensor<8x10xbf16>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %losses, %maximum, %logarithm = binade.cross_entropy %logits, %labels {ignore_index = -100 : i64}
    : (tensor<8x10xbf16>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK-NEXT: binade.cross_entropy_grad %losses, %arg0, %arg1, %maximum, %logarithm {ignore_index = -100 : i64}
  %d = binade.cross_entropy_grad %losses, %logits, %labels, %maximum, %logarithm {ignore_index = -100 : i64}
    : (tensor<8xf32>, tensor<8x10xbf16>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x10xbf16>
  // CHECK-NEXT: binade.label_weight %arg1 {ignore_index = -100 : i64} : (tensor<8xi64>) -> tensor<f32>
  %w = binade.label_weight %labels {ignore_index = -100 : i64} : (tensor<8xi64>) -> tensor<f32>
  return %d, %w : tensor<8x10xbf16>, tensor<f32>
}
