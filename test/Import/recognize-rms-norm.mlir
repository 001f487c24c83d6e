// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// x over the root, times the scale.

// CHECK-LABEL: func @by_division
// CHECK-NEXT:    %[[Y:.*]], %{{.*}} = binade.rms_norm %arg0, %arg1 {epsilon = {{1.*e-05|9.99.*E-6}} : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @by_division(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// The reciprocal of the root as a factor, the scale before x, the square a power.

// CHECK-LABEL: func @by_reciprocal
// CHECK-NEXT:    %[[Y:.*]], %{{.*}} = binade.rms_norm %arg0, %arg1 {epsilon = {{1.*e-05|9.99.*E-6}} : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @by_reciprocal(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %two = binade.constant dense<2.0> : tensor<2x4xf32>
  %sq = binade.pow %x, %two : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %i = binade.reciprocal %r : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %ib = binade.broadcast %i {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %n = binade.mul %x, %ib : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %wb, %n : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// The mean as a sum over the number of its elements.

// CHECK-LABEL: func @sum_and_count
// CHECK-NEXT:    %[[Y:.*]], %{{.*}} = binade.rms_norm %arg0, %arg1 {epsilon = {{1.*e-05|9.99.*E-6}} : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @sum_and_count(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = binade.reduce_sum %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %four = binade.constant dense<4.0> : tensor<2xf32>
  %m = binade.div %s, %four : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// Without a scale it is 1.

// CHECK-LABEL: func @without_scale
// CHECK:         %[[ONE:.*]] = binade.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %[[Y:.*]], %{{.*}} = binade.rms_norm %arg0, %[[ONE]]
// CHECK-NEXT:    return %[[Y]]
func.func @without_scale(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %d : tensor<2x4xf32>
}

// A factor per row is not the scale of the norm, and stays.

// CHECK-LABEL: func @scale_of_rows
// CHECK:         %[[N:.*]], %{{.*}} = binade.rms_norm %arg0
// CHECK:         %[[B:.*]] = binade.broadcast %arg1 {axes = array<i64: 0>}
// CHECK-NEXT:    %[[Y:.*]] = binade.mul %[[N]], %[[B]]
// CHECK-NEXT:    return %[[Y]]
func.func @scale_of_rows(%x: tensor<2x4xf32>, %w: tensor<2xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// A sum in place of the mean.

// CHECK-LABEL: func @sum
// CHECK-NOT:     binade.rms_norm
// CHECK:         binade.sqrt
func.func @sum(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_sum %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// The epsilon is added to the root instead of under it.

// CHECK-LABEL: func @epsilon_outside_the_root
// CHECK-NOT:     binade.rms_norm
// CHECK:         binade.sqrt
func.func @epsilon_outside_the_root(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.sqrt %mk : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.add %a, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// The root of another value.

// CHECK-LABEL: func @of_another_value
// CHECK-NOT:     binade.rms_norm
// CHECK:         binade.sqrt
func.func @of_another_value(%x: tensor<2x4xf32>, %z: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %z, %z : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// The root of a product with another value.

// CHECK-LABEL: func @of_a_product
// CHECK-NOT:     binade.rms_norm
// CHECK:         binade.sqrt
func.func @of_a_product(%x: tensor<2x4xf32>, %z: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %z : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// Times the root.

// CHECK-LABEL: func @times_the_root
// CHECK-NOT:     binade.rms_norm
// CHECK:         binade.sqrt
func.func @times_the_root(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.mul %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// Another op reads the root.

// CHECK-LABEL: func @root_is_used
// CHECK-NOT:     binade.rms_norm
// CHECK:         binade.sqrt
func.func @root_is_used(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2x1xf32>) {
  %eps = binade.constant dense<1.0e-5> : tensor<2x1xf32>
  %sq = binade.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %mk = binade.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = binade.add %mk, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = binade.sqrt %a : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x4xf32>
  %d = binade.div %x, %rb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %wb = binade.broadcast %w {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
  %y = binade.mul %d, %wb : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y, %r : tensor<2x4xf32>, tensor<2x1xf32>
}

// Over another axis than the last.

// CHECK-LABEL: func @other_axis
// CHECK-NOT:     binade.rms_norm
// CHECK:         binade.sqrt
func.func @other_axis(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %eps = binade.constant dense<1.0e-5> : tensor<1x4xf32>
  %sq = binade.mul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = binade.reduce_mean %sq {axes = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %mk = binade.reshape %m : (tensor<4xf32>) -> tensor<1x4xf32>
  %a = binade.add %mk, %eps : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %r = binade.sqrt %a : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %rb = binade.broadcast %r {axes = array<i64: 0, 1>} : (tensor<1x4xf32>) -> tensor<4x4xf32>
  %y = binade.div %x, %rb : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
