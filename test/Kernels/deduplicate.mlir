// RUN: binade-opt %s --binade-form-kernels | FileCheck %s

// Equal kernels are one function, wherever they came from; another attribute, shape or
// format makes another kernel.

// CHECK-LABEL: func.func @step
// CHECK:         %[[A:.*]] = binade.launch [@gelu_0](%arg0)
// CHECK:         %[[M:.*]] = binade.matmul
// CHECK:         binade.launch [@gelu_0](%[[M]])
// CHECK:         binade.launch [@gelu_1](%arg0)
// CHECK:         binade.launch [@gelu_2](%arg1)
// CHECK-COUNT-3: func.func private @gelu_
// CHECK-NOT:     func.func private
func.func @step(%x: tensor<8x8xf32>, %y: tensor<4x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) {
  %0 = binade.gelu %x : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("layer.0")
  %1 = binade.matmul %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = binade.gelu %1 : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("layer.1")
  %3 = binade.gelu %x {approximate = #binade.approximation<tanh>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = binade.gelu %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %3, %4 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>
}
