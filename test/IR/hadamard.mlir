// RUN: binade-opt %s | FileCheck %s
// RUN: binade-opt %s | binade-opt | FileCheck %s

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<8x64xbf16>, %s: tensor<16xf32>) -> tensor<8x64xf32> {
  // CHECK: binade.hadamard %{{.*}} signs(%{{.*}}) {axis = -1 : i64, size = 16 : i64} : (tensor<8x64xbf16>, tensor<16xf32>) -> tensor<8x64xf32>
  %y = binade.hadamard %x signs(%s) {axis = -1 : i64, size = 16 : i64} : (tensor<8x64xbf16>, tensor<16xf32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @columns
func.func @columns(%x: tensor<2x128x3xf32>) -> tensor<2x128x3xf32> {
  // CHECK: binade.hadamard %{{.*}} {axis = -2 : i64, size = 128 : i64} : (tensor<2x128x3xf32>) -> tensor<2x128x3xf32>
  %y = binade.hadamard %x {axis = -2 : i64, size = 128 : i64} : (tensor<2x128x3xf32>) -> tensor<2x128x3xf32>
  return %y : tensor<2x128x3xf32>
}
