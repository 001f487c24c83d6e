// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// Mean, variance, root, scale and bias. `epsilon` is the constant that the graph adds.

// CHECK-LABEL: func @with_bias
// CHECK-SAME:    %[[X:.*]]: tensor<2x4xf32>, %[[SCALE:.*]]: tensor<4xf32>, %[[BIAS:.*]]: tensor<4xf32>
// CHECK-NEXT:    %[[Y:.*]], %{{.*}}, %{{.*}} = binade.layer_norm %[[X]], %[[SCALE]], %[[BIAS]] {epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @with_bias(%x: tensor<2x4xf32>, %scale: tensor<4xf32>, %bias: tensor<4xf32>)
    -> tensor<2x4xf32> {
  %two = binade.constant dense<2.0> : tensor<2x4xf32>
  %epsilon = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %0 = binade.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = binade.reshape %0 : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %3 = binade.sub %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = binade.pow %3, %two : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = binade.reduce_mean %4 {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %6 = binade.reshape %5 : (tensor<2xf32>) -> tensor<2x1xf32>
  %7 = binade.add %6, %epsilon : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %8 = binade.sqrt %7 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %9 = binade.broadcast %8 {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %10 = binade.div %3, %9 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = binade.broadcast %scale {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %12 = binade.mul %10, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %13 = binade.broadcast %bias {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %14 = binade.add %12, %13 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %14 : tensor<2x4xf32>
}

// The difference is written twice, the square is a multiplication, the root a reciprocal.

// CHECK-LABEL: func @with_reciprocal
// CHECK-NEXT:    binade.layer_norm %arg0, %arg1 {epsilon = 1.000000e+00 : f64}
// CHECK-NEXT:    return
func.func @with_reciprocal(%x: tensor<2x4xf32>, %scale: tensor<4xf32>) -> tensor<2x4xf32> {
  %epsilon = binade.constant dense<1.0> : tensor<2x1xf32>
  %0 = binade.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = binade.reshape %0 : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %3 = binade.sub %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = binade.sub %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = binade.mul %4, %4 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = binade.reduce_mean %5 {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %7 = binade.reshape %6 : (tensor<2xf32>) -> tensor<2x1xf32>
  %8 = binade.add %epsilon, %7 : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %9 = binade.sqrt %8 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %10 = binade.reciprocal %9 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %11 = binade.broadcast %10 {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %12 = binade.mul %3, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %13 = binade.broadcast %scale {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %14 = binade.mul %12, %13 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %14 : tensor<2x4xf32>
}

// The variance is that of another value.

// CHECK-LABEL: func @variance_of_another_value
// CHECK-NOT:     binade.layer_norm
// CHECK:         binade.sqrt
func.func @variance_of_another_value(%x: tensor<2x4xf32>, %z: tensor<2x4xf32>,
                                     %scale: tensor<4xf32>) -> tensor<2x4xf32> {
  %epsilon = binade.constant dense<1.0> : tensor<2x1xf32>
  %0 = binade.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = binade.reshape %0 : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %3 = binade.sub %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = binade.sub %z, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = binade.mul %4, %4 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = binade.reduce_mean %5 {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %7 = binade.reshape %6 : (tensor<2xf32>) -> tensor<2x1xf32>
  %8 = binade.add %7, %epsilon : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %9 = binade.sqrt %8 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %10 = binade.broadcast %9 {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %11 = binade.div %3, %10 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %12 = binade.broadcast %scale {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %13 = binade.mul %11, %12 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %13 : tensor<2x4xf32>
}

// The mean has another user, so that the op becomes an RMS norm of the centered value.

// CHECK-LABEL: func @mean_is_used
// CHECK-NOT:     binade.layer_norm
// CHECK:         %[[CENTERED:.*]] = binade.sub %arg0
// CHECK-NEXT:    %[[Y:.*]], %{{.*}} = binade.rms_norm %[[CENTERED]], %arg1
// CHECK-NEXT:    return %[[Y]]
func.func @mean_is_used(%x: tensor<2x4xf32>, %scale: tensor<4xf32>)
    -> (tensor<2x4xf32>, tensor<2xf32>) {
  %epsilon = binade.constant dense<1.0> : tensor<2x1xf32>
  %0 = binade.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = binade.reshape %0 : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %3 = binade.sub %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = binade.mul %3, %3 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = binade.reduce_mean %4 {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %6 = binade.reshape %5 : (tensor<2xf32>) -> tensor<2x1xf32>
  %7 = binade.add %6, %epsilon : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %8 = binade.sqrt %7 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %9 = binade.broadcast %8 {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %10 = binade.div %3, %9 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = binade.broadcast %scale {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %12 = binade.mul %10, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %12, %0 : tensor<2x4xf32>, tensor<2xf32>
}

// A mean over other axes is another normalization.

// CHECK-LABEL: func @other_axis
// CHECK-NOT:     binade.layer_norm
// CHECK:         binade.sqrt
func.func @other_axis(%x: tensor<4x4xf32>, %scale: tensor<4xf32>) -> tensor<4x4xf32> {
  %epsilon = binade.constant dense<1.0> : tensor<4x1xf32>
  %0 = binade.reduce_mean %x {axes = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %1 = binade.reshape %0 : (tensor<4xf32>) -> tensor<4x1xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x4xf32>
  %3 = binade.sub %x, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = binade.mul %3, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = binade.reduce_mean %4 {axes = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %6 = binade.reshape %5 : (tensor<4xf32>) -> tensor<4x1xf32>
  %7 = binade.add %6, %epsilon : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %8 = binade.sqrt %7 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %9 = binade.broadcast %8 {axes = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x4xf32>
  %10 = binade.div %3, %9 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %11 = binade.broadcast %scale {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %12 = binade.mul %10, %11 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %12 : tensor<4x4xf32>
}
