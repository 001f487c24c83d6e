// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @pieces
// CHECK:         %[[T:.*]]:2 = binade.tile 4 slices 1 joins 1(%arg0, %arg1) {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: tensor<2x8xf32>, %[[W:.*]]: tensor<8x8xf32>):
// CHECK-NEXT:      %[[Y:.*]] = binade.matmul %[[X]], %[[W]]
// CHECK-NEXT:      %[[G:.*]] = binade.matmul %[[X]], %[[X]] {transpose_lhs}
// CHECK-NEXT:      binade.yield %[[Y]], %[[G]] : tensor<2x8xf32>, tensor<8x8xf32>
// CHECK-NEXT:    } : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
// CHECK-NEXT:    return %[[T]]#0, %[[T]]#1
func.func @pieces(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %y, %g = binade.tile 4 slices 1 joins 1 (%x, %w) {
  ^bb0(%piece: tensor<2x8xf32>, %all: tensor<8x8xf32>):
    %y = binade.matmul %piece, %all : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %g = binade.matmul %piece, %piece {transpose_lhs} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    binade.yield %y, %g : tensor<2x8xf32>, tensor<8x8xf32>
  } : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %y, %g : tensor<8x8xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @remainder
// CHECK:         binade.tile 2 of 3 remainder 2 slices 1 joins 1(%arg0) {
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<6xf32>):
// CHECK:         } remainder {
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<4xf32>):
// CHECK:         } : (tensor<16xf32>) -> tensor<16xf32>
func.func @remainder(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = binade.tile 2 of 3 remainder 2 slices 1 joins 1 (%x) {
  ^bb0(%piece: tensor<6xf32>):
    %e = binade.exp %piece : (tensor<6xf32>) -> tensor<6xf32>
    binade.yield %e : tensor<6xf32>
  } remainder {
  ^bb0(%piece: tensor<4xf32>):
    %e = binade.exp %piece : (tensor<4xf32>) -> tensor<4xf32>
    binade.yield %e : tensor<4xf32>
  } : (tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}
