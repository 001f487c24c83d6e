// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x4x5x8xbf16>, %v: tensor<2x4x5x6xbf16>)
    -> (tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x6xbf16>) {
  // CHECK-NEXT: binade.attention %arg0, %arg1, %arg2 {causal, scale = 1.250000e-01 : f64}
  // CHECK-SAME: -> (tensor<2x4x5x6xbf16>, tensor<2x4x5xf32>)
  %y, %lse = binade.attention %q, %k, %v {scale = 0.125 : f64, causal}
    : (tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x6xbf16>)
      -> (tensor<2x4x5x6xbf16>, tensor<2x4x5xf32>)
  // CHECK-NEXT: binade.attention_grad %y, %arg0, %arg1, %arg2, %y, %lse {causal, scale = 1.250000e-01 : f64}
  %dq, %dk, %dv = binade.attention_grad %y, %q, %k, %v, %y, %lse {scale = 0.125 : f64, causal}
    : (tensor<2x4x5x6xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x6xbf16>,
       tensor<2x4x5x6xbf16>, tensor<2x4x5xf32>)
      -> (tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x6xbf16>)
  return %dq, %dk, %dv : tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x6xbf16>
}

// Three heads share keys and values.
// CHECK-LABEL: func.func @grouped
func.func @grouped(%q: tensor<2x3x5x8xbf16>, %k: tensor<2x1x7x8xbf16>, %v: tensor<2x1x7x6xbf16>)
    -> (tensor<2x3x5x8xbf16>, tensor<2x1x7x8xbf16>, tensor<2x1x7x6xbf16>) {
  // CHECK-NEXT: binade.attention %arg0, %arg1, %arg2 {scale = 1.250000e-01 : f64}
  // CHECK-SAME: -> (tensor<2x3x5x6xbf16>, tensor<2x3x5xf32>)
  %y, %lse = binade.attention %q, %k, %v {scale = 0.125 : f64}
    : (tensor<2x3x5x8xbf16>, tensor<2x1x7x8xbf16>, tensor<2x1x7x6xbf16>)
      -> (tensor<2x3x5x6xbf16>, tensor<2x3x5xf32>)
  // CHECK-NEXT: binade.attention_grad %y, %arg0, %arg1, %arg2, %y, %lse
  %dq, %dk, %dv = binade.attention_grad %y, %q, %k, %v, %y, %lse {scale = 0.125 : f64}
    : (tensor<2x3x5x6xbf16>, tensor<2x3x5x8xbf16>, tensor<2x1x7x8xbf16>, tensor<2x1x7x6xbf16>,
       tensor<2x3x5x6xbf16>, tensor<2x3x5xf32>)
      -> (tensor<2x3x5x8xbf16>, tensor<2x1x7x8xbf16>, tensor<2x1x7x6xbf16>)
  return %dq, %dk, %dv : tensor<2x3x5x8xbf16>, tensor<2x1x7x8xbf16>, tensor<2x1x7x6xbf16>
}

// CHECK-LABEL: func.func @extras
func.func @extras(%q: tensor<2x3x5x8xf32>, %b: tensor<1x3x5x5xf32>, %p: tensor<2x1x1x5xf32>,
                  %m: tensor<2x1x1x5xi1>, %r: tensor<2xi64>)
    -> (tensor<2x3x5x8xf32>, tensor<1x3x5x5xf32>, tensor<2x1x1x5xf32>) {
  // CHECK-NEXT: binade.attention %arg0, %arg0, %arg0 biases(%arg1, %arg2) mask(%arg3) rng(%arg4)
  // CHECK-SAME: {fill = -1.000000e+09 : f64, ratio = 1.000000e-01 : f64, scale = 1.250000e-01 : f64, softcap = 3.000000e+01 : f64, stream = 3 : i64, zero_hidden, zero_nan}
  %y, %lse = binade.attention %q, %q, %q biases(%b, %p) mask(%m) rng(%r)
      {scale = 0.125 : f64, softcap = 30.0 : f64, fill = -1.0e9 : f64, ratio = 0.1 : f64,
       stream = 3 : i64, zero_hidden, zero_nan}
    : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<1x3x5x5xf32>,
       tensor<2x1x1x5xf32>, tensor<2x1x1x5xi1>, tensor<2xi64>)
      -> (tensor<2x3x5x8xf32>, tensor<2x3x5xf32>)
  // CHECK-NEXT: binade.attention_grad %y, %arg0, %arg0, %arg0, %y, %lse biases(%arg1, %arg2) {scale
  // CHECK-SAME: -> (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<1x3x5x5xf32>, tensor<2x1x1x5xf32>)
  %g:5 = binade.attention_grad %y, %q, %q, %q, %y, %lse biases(%b, %p) {scale = 0.125 : f64}
    : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>,
       tensor<2x3x5x8xf32>, tensor<2x3x5xf32>, tensor<1x3x5x5xf32>, tensor<2x1x1x5xf32>)
      -> (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<1x3x5x5xf32>,
          tensor<2x1x1x5xf32>)
  return %g#0, %g#3, %g#4 : tensor<2x3x5x8xf32>, tensor<1x3x5x5xf32>, tensor<2x1x1x5xf32>
}
