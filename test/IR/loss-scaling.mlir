// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @unscaled
func.func @unscaled() -> (tensor<f32>, tensor<f32>) {
  // CHECK-NEXT: binade.gradient_seed : () -> tensor<f32>
  %seed = binade.gradient_seed : () -> tensor<f32>
  // CHECK-NEXT: binade.unscale_factor : () -> tensor<f32>
  %factor = binade.unscale_factor : () -> tensor<f32>
  return %seed, %factor : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @scaled
func.func @scaled(%scale: tensor<f32>, %count: tensor<i64>, %bad: tensor<i1>)
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<i64>) {
  // CHECK-NEXT: binade.gradient_seed %arg0 : (tensor<f32>) -> tensor<f32>
  %seed = binade.gradient_seed %scale : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: binade.unscale_factor %arg0 : (tensor<f32>) -> tensor<f32>
  %factor = binade.unscale_factor %scale : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: binade.update_scale %arg0, %arg1, %arg2 {backoff = 5.000000e-01 : f64, growth = 2.000000e+00 : f64, interval = 2000 : i64}
  %new, %next = binade.update_scale %scale, %count, %bad
      {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 2000 : i64}
    : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
  return %seed, %factor, %new, %next : tensor<f32>, tensor<f32>, tensor<f32>, tensor<i64>
}

// CHECK-LABEL: func.func @with_hysteresis
func.func @with_hysteresis(%scale: tensor<f32>, %count: tensor<i64>, %bad: tensor<i1>, %left: tensor<i64>)
    -> (tensor<f32>, tensor<i64>, tensor<i64>) {
  // CHECK-NEXT: binade.update_scale %arg0, %arg1, %arg2, %arg3 {backoff = 5.000000e-01 : f64, consecutive_hysteresis, delay = 1 : i64, growth = 2.000000e+00 : f64, hysteresis = 2 : i64, interval = 2000 : i64, max = 6.553600e+04 : f64, min = 1.000000e+00 : f64}
  %new, %next, %fewer = binade.update_scale %scale, %count, %bad, %left
      {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 2000 : i64, delay = 1 : i64,
       min = 1.0 : f64, max = 65536.0 : f64, hysteresis = 2 : i64, consecutive_hysteresis}
    : (tensor<f32>, tensor<i64>, tensor<i1>, tensor<i64>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
  return %new, %next, %fewer : tensor<f32>, tensor<i64>, tensor<i64>
}

// CHECK-LABEL: func.func @raised
func.func @raised(%scale: tensor<f32>, %count: tensor<i64>, %v: tensor<i64>,
                  %n: tensor<i64>, %amax: tensor<f32>)
    -> (tensor<f32>, tensor<i64>, tensor<i1>) {
  // CHECK-NEXT: binade.raise_scale %arg0, %arg1, %arg2, %arg3, %arg4 {check = 100 : i64, growth = 2.000000e+00 : f64, largest = 1.637600e+04 : f64, limit = 1.000000e-02 : f64}
  %r:3 = binade.raise_scale %scale, %count, %v, %n, %amax
    {growth = 2.0 : f64, check = 100 : i64, limit = 0.01 : f64, largest = 16376.0 : f64}
    : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<f32>)
    -> (tensor<f32>, tensor<i64>, tensor<i1>)
  return %r#0, %r#1, %r#2 : tensor<f32>, tensor<i64>, tensor<i1>
}
