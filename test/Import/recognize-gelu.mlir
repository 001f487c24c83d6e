// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// x 0.5 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as exporters write it. The
// location of the new op contains those of all nodes.

// CHECK-LABEL: func @by_tanh
// CHECK-NEXT:    %[[Y:.*]] = binade.gelu %arg0 {approximate = #binade.approximation<tanh>}
// CHECK-NEXT:    return %[[Y]]
func.func @by_tanh(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %one = binade.constant dense<1.0> : tensor<8xf32>
  %three = binade.constant dense<3.0> : tensor<8xf32>
  %k = binade.constant dense<0x3D372713> : tensor<8xf32>
  %c = binade.constant dense<0x3F4C422A> : tensor<8xf32>
  %0 = binade.mul %x, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.pow %x, %three : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.mul %1, %k : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = binade.add %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.mul %3, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = binade.tanh %4 : (tensor<8xf32>) -> tensor<8xf32>
  %6 = binade.add %5, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = binade.mul %0, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}

// The cube as two multiplications, and the factors of the result in another order.

// CHECK-LABEL: func @by_tanh_with_products
// CHECK-NEXT:    %[[Y:.*]] = binade.gelu %arg0 {approximate = #binade.approximation<tanh>}
// CHECK-NEXT:    return %[[Y]]
func.func @by_tanh_with_products(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %one = binade.constant dense<1.0> : tensor<8xf32>
  %k = binade.constant dense<0x3D372713> : tensor<8xf32>
  %c = binade.constant dense<0x3F4C422A> : tensor<8xf32>
  %0 = binade.mul %k, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.mul %0, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.add %one, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = binade.mul %x, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.mul %3, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = binade.tanh %4 : (tensor<8xf32>) -> tensor<8xf32>
  %6 = binade.add %one, %5 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = binade.mul %half, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %8 = binade.mul %7, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %8 : tensor<8xf32>
}

// CHECK-LABEL: func @by_erf
// CHECK-NEXT:    %[[Y:.*]] = binade.gelu %arg0 : (
// CHECK-NEXT:    return %[[Y]]
func.func @by_erf(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %one = binade.constant dense<1.0> : tensor<8xf32>
  %root = binade.constant dense<0x3FB504F3> : tensor<8xf32>
  %0 = binade.div %x, %root : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.add %1, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = binade.mul %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.mul %3, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: func @by_erf_of_product
// CHECK-NEXT:    binade.gelu %arg0 : (
func.func @by_erf_of_product(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %one = binade.constant dense<1.0> : tensor<8xf32>
  %root = binade.constant dense<0x3F3504F3> : tensor<8xf32>
  %0 = binade.mul %x, %root : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.add %1, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = binade.mul %x, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.mul %3, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

//===----------------------------------------------------------------------===//
// Graphs that are almost the function stay unchanged
//===----------------------------------------------------------------------===//

// sqrt(2) is one unit in the last place too large.

// CHECK-LABEL: func @constant_off_by_one_ulp
// CHECK-NOT:     binade.gelu
// CHECK:         binade.erf
func.func @constant_off_by_one_ulp(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %one = binade.constant dense<1.0> : tensor<8xf32>
  %root = binade.constant dense<0x3FB504F4> : tensor<8xf32>
  %0 = binade.div %x, %root : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.add %1, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = binade.mul %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.mul %3, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: func @cubic_off_by_one_ulp
// CHECK-NOT:     binade.gelu
// CHECK:         binade.tanh
func.func @cubic_off_by_one_ulp(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %one = binade.constant dense<1.0> : tensor<8xf32>
  %three = binade.constant dense<3.0> : tensor<8xf32>
  %k = binade.constant dense<0x3D372712> : tensor<8xf32>
  %c = binade.constant dense<0x3F4C422A> : tensor<8xf32>
  %0 = binade.mul %x, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.pow %x, %three : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.mul %1, %k : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = binade.add %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.mul %3, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = binade.tanh %4 : (tensor<8xf32>) -> tensor<8xf32>
  %6 = binade.add %5, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = binade.mul %0, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}

// The other factor is not the argument of the error function.

// CHECK-LABEL: func @another_factor
// CHECK-NOT:     binade.gelu
// CHECK:         binade.erf
func.func @another_factor(%x: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %one = binade.constant dense<1.0> : tensor<8xf32>
  %root = binade.constant dense<0x3FB504F3> : tensor<8xf32>
  %0 = binade.div %x, %root : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.add %1, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = binade.mul %z, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.mul %3, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: func @inner_value_is_used
// CHECK-NOT:     binade.gelu
// CHECK:         binade.erf
func.func @inner_value_is_used(%x: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %one = binade.constant dense<1.0> : tensor<8xf32>
  %root = binade.constant dense<0x3FB504F3> : tensor<8xf32>
  %0 = binade.div %x, %root : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = binade.add %1, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = binade.mul %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.mul %3, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4, %1 : tensor<8xf32>, tensor<8xf32>
}
