// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @formats
func.func @formats(%x: tensor<8xf32>) -> tensor<8xf8E4M3FN> {
  // CHECK-NEXT: binade.cast %arg0 : (tensor<8xf32>) -> tensor<8xbf16>
  %0 = binade.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK-NEXT: binade.cast %0 {saturate} : (tensor<8xbf16>) -> tensor<8xf8E4M3FN>
  %1 = binade.cast %0 {saturate} : (tensor<8xbf16>) -> tensor<8xf8E4M3FN>
  return %1 : tensor<8xf8E4M3FN>
}

// CHECK-LABEL: func.func @numbers
func.func @numbers(%x: tensor<8xi1>) -> tensor<8xi64> {
  // CHECK-NEXT: binade.cast %arg0 : (tensor<8xi1>) -> tensor<8xf32>
  %0 = binade.cast %x : (tensor<8xi1>) -> tensor<8xf32>
  // CHECK-NEXT: binade.cast %0 : (tensor<8xf32>) -> tensor<8xi64>
  %1 = binade.cast %0 : (tensor<8xf32>) -> tensor<8xi64>
  return %1 : tensor<8xi64>
}

// CHECK-LABEL: func.func @unsigned_and_small_integers
func.func @unsigned_and_small_integers(%x: tensor<8xui32>) -> tensor<8xui4> {
  // CHECK-NEXT: binade.cast %arg0 : (tensor<8xui32>) -> tensor<8xi4>
  %0 = binade.cast %x : (tensor<8xui32>) -> tensor<8xi4>
  // CHECK-NEXT: binade.cast %0 : (tensor<8xi4>) -> tensor<8xui4>
  %1 = binade.cast %0 : (tensor<8xi4>) -> tensor<8xui4>
  return %1 : tensor<8xui4>
}

// CHECK-LABEL: func.func @bitcast
func.func @bitcast(%x: tensor<8xf32>) -> tensor<8xui32> {
  // CHECK-NEXT: binade.bitcast %arg0 : (tensor<8xf32>) -> tensor<8xui32>
  %0 = binade.bitcast %x : (tensor<8xf32>) -> tensor<8xui32>
  return %0 : tensor<8xui32>
}

// CHECK-LABEL: func.func @round_to
func.func @round_to(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: binade.round_to %arg0 {format = tf32} : tensor<8xf32>
  %0 = binade.round_to %x {format = tf32} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @save
func.func @save(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: binade.save %arg0 {precision = #binade.precision<compute = f32, result = bf16>}
  %0 = binade.save %x {precision = #binade.precision<compute = f32, result = bf16>}
    : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
