// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @constants
func.func @constants() -> (tensor<3xf32>, tensor<128xf32>, tensor<2x3xi32>, tensor<2x3xi64>) {
  // CHECK-NEXT: binade.constant dense<[1.000000e+00, 0xFF800000, 0x7FC00000]> : tensor<3xf32>
  %0 = binade.constant dense<[1.0, 0xFF800000, 0x7FC00000]> : tensor<3xf32>
  // CHECK-NEXT: binade.constant #binade.external<"weights.bin", 4096, 512> : tensor<128xf32>
  %1 = binade.constant #binade.external<"weights.bin", 4096, 512> : tensor<128xf32>
  // CHECK-NEXT: binade.iota {axis = 1 : i64} : tensor<2x3xi32>
  %2 = binade.iota {axis = 1 : i64} : tensor<2x3xi32>
  // CHECK-NEXT: binade.iota : tensor<2x3xi64>
  %3 = binade.iota : tensor<2x3xi64>
  return %0, %1, %2, %3 : tensor<3xf32>, tensor<128xf32>, tensor<2x3xi32>, tensor<2x3xi64>
}

// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x3x4xf32>) -> tensor<8x6xf32> {
  // CHECK-NEXT: binade.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %0 = binade.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  // CHECK-NEXT: binade.transpose %0 {permutation = array<i64: 1, 0>}
  %1 = binade.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: binade.slice %1 {offsets = array<i64: 1, 0>, strides = array<i64: 2, 1>} : (tensor<4x6xf32>) -> tensor<2x6xf32>
  %2 = binade.slice %1 {offsets = array<i64: 1, 0>, strides = array<i64: 2, 1>}
    : (tensor<4x6xf32>) -> tensor<2x6xf32>
  // CHECK-NEXT: binade.pad %2 {offsets = array<i64: 1, 0>, strides = array<i64: 2, 1>} : (tensor<2x6xf32>) -> tensor<4x6xf32>
  %3 = binade.pad %2 {offsets = array<i64: 1, 0>, strides = array<i64: 2, 1>}
    : (tensor<2x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: binade.concat %1, %3 {axis = 0 : i64}
  %4 = binade.concat %1, %3 {axis = 0 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return %4 : tensor<8x6xf32>
}

// CHECK-LABEL: func.func @broadcast
func.func @broadcast(%x: tensor<64xf32>, %y: tensor<8x1xf32>, %z: tensor<f32>)
    -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK-NEXT: binade.broadcast %arg0 {axes = array<i64: 1>} : (tensor<64xf32>) -> tensor<8x64xf32>
  %0 = binade.broadcast %x {axes = array<i64: 1>} : (tensor<64xf32>) -> tensor<8x64xf32>
  // CHECK-NEXT: binade.broadcast %arg1 {axes = array<i64: 0, 1>}
  %1 = binade.broadcast %y {axes = array<i64: 0, 1>} : (tensor<8x1xf32>) -> tensor<8x64xf32>
  // CHECK-NEXT: binade.broadcast %arg2 {axes = array<i64>}
  %2 = binade.broadcast %z {axes = array<i64>} : (tensor<f32>) -> tensor<8x64xf32>
  return %0, %1, %2 : tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>
}
