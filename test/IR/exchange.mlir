// RUN: binade-opt %s --mlir-print-op-generic | binade-opt | FileCheck %s

// CHECK-LABEL: func.func @all
// CHECK:         binade.exchange exact gradients(%arg0, %arg1) magnitudes(%arg2) rng(%arg3) sums(%arg4, %arg5) {buckets = array<i64: 1, 1>}
func.func @all(%g: tensor<8x64xf32>, %h: tensor<130xf32>, %m: tensor<f32>, %r: tensor<2xi64>,
               %s: tensor<1540xi32>, %t: tensor<392xi32>) -> tensor<8x64xf32> {
  %x:4 = binade.exchange exact gradients(%g, %h) magnitudes(%m) rng(%r) sums(%s, %t)
      {buckets = array<i64: 1, 1>}
      : (tensor<8x64xf32>, tensor<130xf32>, tensor<f32>, tensor<2xi64>, tensor<1540xi32>, tensor<392xi32>)
        -> (tensor<8x64xf32>, tensor<130xf32>, tensor<f32>, tensor<2xi64>)
  return %x#0 : tensor<8x64xf32>
}

// Tensors begin at multiples of 16: 3 at 0 and 5 at 16 end at 21.

// CHECK-LABEL: func.func @add
// CHECK:         binade.exchange_add %arg0, %arg1, %arg2 : (tensor<64xi32>, tensor<3xf32>, tensor<5xf32>) -> tensor<64xi32>
func.func @add(%s: tensor<64xi32>, %g: tensor<3xf32>, %h: tensor<5xf32>) -> tensor<64xi32> {
  %a = binade.exchange_add %s, %g, %h
      : (tensor<64xi32>, tensor<3xf32>, tensor<5xf32>) -> tensor<64xi32>
  return %a : tensor<64xi32>
}
