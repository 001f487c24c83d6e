// RUN: binade-opt %s '--binade-insert-requested-statistics=requests=input,output:absmax' | FileCheck %s
// RUN: binade-opt %s '--binade-insert-requested-statistics=requests=input,output:absmax' --cse --binade-form-kernels \
// RUN:   | FileCheck %s --check-prefix=KERNELS

// The output of a product is watched in the shape in which a kernel reads it, and what the next
// node reads is the output of that kernel: one look at each, in the kernel.

// CHECK-LABEL: func.func @step
// CHECK:         %[[Y:.*]] = binade.matmul
// CHECK:         %[[V:.*]] = binade.reshape %[[Y]]
// CHECK:         %[[T:.*]] = binade.tanh %[[V]]
// CHECK-NEXT:    %[[U:.*]] = binade.reshape %[[T]]
// CHECK-NEXT:    %[[Z:.*]] = binade.matmul %[[U]]
// CHECK-NEXT:    binade.abs %arg0
// CHECK:         binade.abs %[[T]]
// CHECK:         binade.abs %[[V]]
// CHECK:         binade.abs %[[T]]
// CHECK:         binade.abs %[[Z]]

// KERNELS-LABEL: func.func @step
// KERNELS:         binade.matmul
// KERNELS:         %{{.*}}:3 = binade.launch [@tanh_
// KERNELS-NEXT:    binade.reshape
// KERNELS-NEXT:    binade.matmul
func.func @step(
    %x: tensor<8x4xf32> {binade.role = #binade.role<batch>, binade.name = "x"},
    %w: tensor<4x4xf32> {binade.role = #binade.role<parameter>, binade.name = "w"})
    -> (tensor<8x4xf32> {binade.role = #binade.role<output>, binade.name = "z"}) {
  %y = binade.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("/first")
  %v = binade.reshape %y : (tensor<8x4xf32>) -> tensor<2x4x4xf32> loc("/first")
  %t = binade.tanh %v : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32> loc("/tanh")
  %u = binade.reshape %t : (tensor<2x4x4xf32>) -> tensor<8x4xf32> loc("/second")
  %z = binade.matmul %u, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("/second")
  return %z : tensor<8x4xf32>
}
