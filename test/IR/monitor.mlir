// RUN: binade-opt %s --mlir-print-op-generic | binade-opt | FileCheck %s

// CHECK-LABEL: func.func @all
// CHECK:         binade.statistics <amax|smallest|zeros|nonfinite|exponents> %arg0 : (tensor<3x4xf16>) -> (tensor<f32>, tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>)
func.func @all(%x: tensor<3x4xf16>) -> tensor<256xi64> {
  %s:5 = binade.statistics <amax|smallest|zeros|nonfinite|exponents> %x
    : (tensor<3x4xf16>) -> (tensor<f32>, tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>)
  return %s#4 : tensor<256xi64>
}

// Results follow the order of the statistics, not the order in which they are written.

// CHECK-LABEL: func.func @order
// CHECK:         binade.statistics <amax|zeros> %arg0 : (tensor<f32>) -> (tensor<f32>, tensor<i64>)
func.func @order(%x: tensor<f32>) -> tensor<i64> {
  %amax, %zeros = binade.statistics <zeros|amax> %x : (tensor<f32>) -> (tensor<f32>, tensor<i64>)
  return %zeros : tensor<i64>
}
