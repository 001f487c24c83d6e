// RUN: binade-opt %s --binade-emit-kernels | FileCheck %s
// RUN: binade-opt %s --binade-emit-gpu-kernels | FileCheck %s

// A mean of f64 is a sum of f64: of a parameter's squares, by which rules scale rates.

// CHECK:     arith.extf {{.*}} to vector<{{[0-9]+}}xf64>
// CHECK-NOT: truncf
// CHECK:     arith.addf {{.*}} : vector<{{[0-9]+}}xf64>
// CHECK-NOT: truncf
// CHECK:     arith.divf {{.*}}f64
func.func private @mean_of_squares(%w: tensor<8192xf16>) -> tensor<f64>
    attributes {binade.kernel = #binade.schedule<full_reduction>} {
  %0 = binade.cast %w : (tensor<8192xf16>) -> tensor<8192xf64>
  %1 = binade.mul %0, %0 : (tensor<8192xf64>, tensor<8192xf64>) -> tensor<8192xf64>
  %2 = binade.reduce_mean %1 {axes = array<i64: 0>} : (tensor<8192xf64>) -> tensor<f64>
  return %2 : tensor<f64>
}
