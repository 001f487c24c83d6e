// RUN: binade-translate --export-onnx %s -o %t.onnx
// RUN: %python %S/Inputs/print_onnx.py %t.onnx | FileCheck %s

// A large constant whose elements are equal is expanded from one element. Small
// ones, and large ones of other types, are stored.

// CHECK: <float [[ONE:[a-z0-9_]+]] = {0.5}, int64[2] [[SHAPE:[a-z0-9_]+]] = {8,8},
// CHECK-SAME: float[7] [[SMALL:[a-z0-9_]+]] = {0.5,0.5,
// CHECK-SAME: float16[64] [[HALF:[a-z0-9_]+]] = {14336,14336,
// CHECK: "[[LARGE:.*]]" = Expand ([[ONE]], [[SHAPE]])
// CHECK: Add (x, "[[LARGE]]")
// CHECK: Add (v, [[SMALL]])
// CHECK: Cast {{.*}} ([[HALF]])
func.func @step(%x: tensor<8x8xf32> {binade.name = "x"},
                %v: tensor<7xf32> {binade.name = "v"},
                %h: tensor<64xf16> {binade.name = "h"})
    -> (tensor<8x8xf32>, tensor<7xf32>, tensor<64xf16>) {
  %large = binade.constant dense<0.5> : tensor<8x8xf32>
  %small = binade.constant dense<0.5> : tensor<7xf32>
  %half = binade.constant dense<0.5> : tensor<64xf16>
  %0 = binade.add %x, %large : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = binade.add %v, %small : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  %2 = binade.add %h, %half : (tensor<64xf16>, tensor<64xf16>) -> tensor<64xf16>
  return %0, %1, %2 : tensor<8x8xf32>, tensor<7xf32>, tensor<64xf16>
}
