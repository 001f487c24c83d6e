// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// x sigmoid(x), as exporters write it. The new op replaces both.

// CHECK-LABEL: func @product
// CHECK-NEXT:    %[[Y:.*]] = binade.silu %arg0
// CHECK-NEXT:    return %[[Y]]
func.func @product(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = binade.sigmoid %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func @other_order
// CHECK-NEXT:    %[[Y:.*]] = binade.silu %arg0
// CHECK-NEXT:    return %[[Y]]
func.func @other_order(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %0 = binade.sigmoid %x : (tensor<8xbf16>) -> tensor<8xbf16>
  %1 = binade.mul %0, %x : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  return %1 : tensor<8xbf16>
}

// A gate of another value.

// CHECK-LABEL: func @of_another_value
// CHECK-NOT:     binade.silu
// CHECK:         binade.sigmoid
func.func @of_another_value(%x: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
  %0 = binade.sigmoid %z : (tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Another op reads the sigmoid.

// CHECK-LABEL: func @sigmoid_is_used
// CHECK-NOT:     binade.silu
// CHECK:         binade.sigmoid
func.func @sigmoid_is_used(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = binade.sigmoid %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<8xf32>
}

// x sigmoid(2 x) is a swish of another slope.

// CHECK-LABEL: func @steeper
// CHECK-NOT:     binade.silu
// CHECK:         binade.sigmoid
func.func @steeper(%x: tensor<8xf32>) -> tensor<8xf32> {
  %two = binade.constant dense<2.0> : tensor<8xf32>
  %0 = binade.mul %x, %two : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.sigmoid %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.mul %x, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
