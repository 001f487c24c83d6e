// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @unary
func.func @unary(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: binade.neg %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = binade.neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.abs %0 :
  %1 = binade.abs %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.sign
  %2 = binade.sign %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.exp
  %3 = binade.exp %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.log
  %4 = binade.log %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.sqrt
  %5 = binade.sqrt %4 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.reciprocal
  %6 = binade.reciprocal %5 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.tanh
  %7 = binade.tanh %6 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.erf
  %8 = binade.erf %7 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.sigmoid
  %9 = binade.sigmoid %8 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.relu
  %10 = binade.relu %9 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.expm1
  %11 = binade.expm1 %10 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.log1p
  %12 = binade.log1p %11 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.sin
  %13 = binade.sin %12 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.cos
  %14 = binade.cos %13 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.atan
  %15 = binade.atan %14 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.softplus
  %16 = binade.softplus %15 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.floor
  %17 = binade.floor %16 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.ceil
  %18 = binade.ceil %17 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.round
  %19 = binade.round %18 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %19 : tensor<4x8xf32>
}

// The exact formula is the default and is not printed.
// CHECK-LABEL: func.func @gelu
func.func @gelu(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: binade.gelu %arg0 : (tensor<8xf32>)
  %0 = binade.gelu %x {approximate = #binade.approximation<none>} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.gelu %0 {approximate = #binade.approximation<tanh>}
  %1 = binade.gelu %0 {approximate = #binade.approximation<tanh>} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @gradients
func.func @gradients(%dy: tensor<8xf32>, %x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: binade.relu_grad %arg0, %arg1
  %0 = binade.relu_grad %dy, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.gelu_grad %0, %arg1 {approximate = #binade.approximation<tanh>}
  %1 = binade.gelu_grad %0, %x {approximate = #binade.approximation<tanh>}
    : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.silu_grad %1, %arg1
  %2 = binade.silu_grad %1, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// CHECK-LABEL: func.func @silu
func.func @silu(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: binade.silu %arg0 : (tensor<8xf32>)
  %0 = binade.silu %x : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @binary
func.func @binary(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: binade.add %arg0, %arg1
  %0 = binade.add %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.sub %0, %arg1
  %1 = binade.sub %0, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.mul
  %2 = binade.mul %1, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.div
  %3 = binade.div %2, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.pow
  %4 = binade.pow %3, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.max
  %5 = binade.max %4, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: binade.min
  %6 = binade.min %5, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %6 : tensor<8xf32>
}

// CHECK-LABEL: func.func @choices
func.func @choices(%x: tensor<8xi64>, %y: tensor<8xi64>) -> tensor<8xi64> {
  // CHECK-NEXT: binade.compare %arg0, %arg1 {comparison = #binade.comparison<less_equal>} : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
  %0 = binade.compare %x, %y {comparison = #binade.comparison<less_equal>}
    : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
  // CHECK-NEXT: binade.not
  %1 = binade.not %0 : (tensor<8xi1>) -> tensor<8xi1>
  // CHECK-NEXT: binade.and
  %2 = binade.and %0, %1 : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
  // CHECK-NEXT: binade.or
  %3 = binade.or %2, %1 : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
  // CHECK-NEXT: binade.xor
  %4 = binade.xor %3, %1 : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
  // CHECK-NEXT: binade.select %4, %arg0, %arg1
  %5 = binade.select %4, %x, %y : (tensor<8xi1>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  return %5 : tensor<8xi64>
}

// CHECK-LABEL: func.func @halves
func.func @halves(%high: tensor<8xbf16>, %low: tensor<8xi16>, %error: tensor<8xi8>) {
  // CHECK-NEXT: binade.join_halves %arg0, %arg1 : (tensor<8xbf16>, tensor<8xi16>) -> tensor<8xf32>
  %0 = binade.join_halves %high, %low : (tensor<8xbf16>, tensor<8xi16>) -> tensor<8xf32>
  // CHECK-NEXT: binade.join_halves %arg0, %arg1 {rounded}
  %1 = binade.join_halves %high, %low {rounded} : (tensor<8xbf16>, tensor<8xi16>) -> tensor<8xf32>
  // CHECK-NEXT: binade.join_halves %arg0, %arg2 : (tensor<8xbf16>, tensor<8xi8>) -> tensor<8xf32>
  %2 = binade.join_halves %high, %error : (tensor<8xbf16>, tensor<8xi8>) -> tensor<8xf32>
  return
}

// Operands and results have formats of their own; decisions are attributes.
// CHECK-LABEL: func.func @formats
func.func @formats(%x: tensor<8xbf16>, %y: tensor<8xf32>) -> tensor<8xf16> {
  // CHECK-NEXT: binade.add %arg0, %arg1 : (tensor<8xbf16>, tensor<8xf32>) -> tensor<8xf16>
  %0 = binade.add %x, %y : (tensor<8xbf16>, tensor<8xf32>) -> tensor<8xf16>
  // CHECK-NEXT: binade.exp %0 {precision = #binade.precision<compute = f32, result = f16, rule = "class deny">}
  %1 = binade.exp %0 {precision = #binade.precision<compute = f32, result = f16, rule = "class deny">}
    : (tensor<8xf16>) -> tensor<8xf16>
  return %1 : tensor<8xf16>
}
