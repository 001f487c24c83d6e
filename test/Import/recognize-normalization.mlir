// RUN: binade-opt %s --split-input-file --binade-recognize-composites | FileCheck %s

// Over the batch and a spatial axis, as PyTorch's decomposition has it: two
// means, a reciprocal root, and running statistics that read the batch's.

// CHECK-LABEL: func @batch_norm
// CHECK-SAME:    %[[X:.*]]: tensor<4x3x2xf32> {{.*}}, %[[SCALE:.*]]: tensor<3xf32> {{.*}}, %[[BIAS:.*]]: tensor<3xf32> {{.*}}, %[[OLD:.*]]: tensor<3xf32>
// CHECK:         %[[MEAN:.*]], %[[VARIANCE:.*]] = binade.batch_norm_statistics %[[X]] {axis = 1 : i64}
// CHECK-DAG:     %[[SHAPED:.*]] = binade.reshape %[[MEAN]]
// CHECK-DAG:     %[[Y:.*]] = binade.batch_norm %[[X]], %[[SCALE]], %[[BIAS]], %[[MEAN]], %[[VARIANCE]] {axis = 1 : i64, epsilon = 9.9999997473787516E-6 : f64, training}
// CHECK-DAG:     %[[FLAT:.*]] = binade.reshape %[[SHAPED]]
// CHECK-DAG:     %[[SHARE:.*]] = binade.mul %[[FLAT]]
// CHECK-DAG:     %[[NEW:.*]] = binade.add %[[SHARE]]
// CHECK-DAG:     %[[LOSS:.*]] = binade.reduce_sum %[[Y]]
// CHECK:         return %[[LOSS]], %[[NEW]], %{{.*}}
func.func @batch_norm(%x: tensor<4x3x2xf32> {binade.name = "x", binade.role = #binade.role<batch>},
    %scale: tensor<3xf32> {binade.name = "scale", binade.role = #binade.role<parameter>},
    %bias: tensor<3xf32> {binade.name = "bias", binade.role = #binade.role<parameter>},
    %old: tensor<3xf32> {binade.name = "old", binade.role = #binade.role<buffer>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<3xf32> {binade.name = "mean", binade.role = #binade.role<output>},
        tensor<3xf32> {binade.name = "variance", binade.role = #binade.role<output>}) {
  %epsilon = binade.constant dense<1.0e-5> : tensor<1x3x1xf32>
  %count = binade.constant dense<8.0> : tensor<1x3x1xf32>
  %share = binade.constant dense<0.1> : tensor<3xf32>
  %0 = binade.reduce_mean %x {axes = array<i64: 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3xf32>
  %1 = binade.reshape %0 : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 0, 1, 2>} : (tensor<1x3x1xf32>) -> tensor<4x3x2xf32>
  %3 = binade.sub %x, %2 : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %4 = binade.mul %3, %3 : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %variance = binade.reduce_mean %4 {axes = array<i64: 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3xf32>
  %5 = binade.reshape %variance : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %6 = binade.reduce_sum %x {axes = array<i64: 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3xf32>
  %7 = binade.reshape %6 : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %mean = binade.div %7, %count : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %8 = binade.add %5, %epsilon : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %9 = binade.sqrt %8 : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %10 = binade.reciprocal %9 : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %11 = binade.broadcast %mean {axes = array<i64: 0, 1, 2>} : (tensor<1x3x1xf32>) -> tensor<4x3x2xf32>
  %12 = binade.sub %x, %11 : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %13 = binade.broadcast %10 {axes = array<i64: 0, 1, 2>} : (tensor<1x3x1xf32>) -> tensor<4x3x2xf32>
  %14 = binade.mul %12, %13 : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %15 = binade.reshape %mean : (tensor<1x3x1xf32>) -> tensor<3xf32>
  %16 = binade.mul %15, %share : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %new = binade.add %16, %old : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %17 = binade.reshape %scale : (tensor<3xf32>) -> tensor<3x1xf32>
  %18 = binade.broadcast %17 {axes = array<i64: 1, 2>} : (tensor<3x1xf32>) -> tensor<4x3x2xf32>
  %19 = binade.mul %14, %18 : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %20 = binade.broadcast %bias {axes = array<i64: 1>} : (tensor<3xf32>) -> tensor<4x3x2xf32>
  %21 = binade.add %19, %20 : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %loss = binade.reduce_sum %21 {axes = array<i64: 0, 1, 2>} : (tensor<4x3x2xf32>) -> tensor<f32>
  return %loss, %new, %variance : tensor<f32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// Two groups of three channels, as x (r s) + (b - m (r s)), whose factors are one
// for each channel and looked up in their order.

// CHECK-LABEL: func @group_norm
// CHECK-DAG:     %[[ONES:.*]] = binade.constant dense<1.000000e+00> : tensor<6xf32>
// CHECK-DAG:     %[[ROWS:.*]] = binade.reshape %{{.*}} -> tensor<2x2x6xf32>
// CHECK:         %[[Y:.*]], %{{.*}}, %{{.*}} = binade.layer_norm %[[ROWS]], %[[ONES]] {epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NOT:     binade.gather
// CHECK:         %[[SCALED:.*]] = binade.mul
// CHECK:         %[[SHIFTED:.*]] = binade.add %[[SCALED]]
// CHECK-NEXT:    %[[SHAPED:.*]] = binade.reshape %[[SHIFTED]] : (tensor<2x2x3x2xf32>) -> tensor<2x6x2xf32>
// CHECK-NEXT:    return %[[SHAPED]]
func.func @group_norm(%x: tensor<2x6x2xf32>, %scale: tensor<6xf32>, %bias: tensor<6xf32>)
    -> tensor<2x6x2xf32> {
  %epsilon = binade.constant dense<1.0e-5> : tensor<2x2x1x1xf32>
  %order = binade.constant dense<[[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]> : tensor<2x6xi64>
  %0 = binade.reshape %x : (tensor<2x6x2xf32>) -> tensor<2x2x3x2xf32>
  %1 = binade.reduce_mean %0 {axes = array<i64: 2, 3>} : (tensor<2x2x3x2xf32>) -> tensor<2x2xf32>
  %2 = binade.reshape %1 : (tensor<2x2xf32>) -> tensor<2x2x1x1xf32>
  %3 = binade.broadcast %2 {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x2x1x1xf32>) -> tensor<2x2x3x2xf32>
  %4 = binade.sub %0, %3 : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %5 = binade.mul %4, %4 : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %6 = binade.reduce_mean %5 {axes = array<i64: 2, 3>} : (tensor<2x2x3x2xf32>) -> tensor<2x2xf32>
  %7 = binade.reshape %6 : (tensor<2x2xf32>) -> tensor<2x2x1x1xf32>
  %8 = binade.add %7, %epsilon : (tensor<2x2x1x1xf32>, tensor<2x2x1x1xf32>) -> tensor<2x2x1x1xf32>
  %9 = binade.sqrt %8 : (tensor<2x2x1x1xf32>) -> tensor<2x2x1x1xf32>
  %10 = binade.reciprocal %9 : (tensor<2x2x1x1xf32>) -> tensor<2x2x1x1xf32>
  %11 = binade.reshape %scale : (tensor<6xf32>) -> tensor<1x2x3x1xf32>
  %12 = binade.broadcast %11 {axes = array<i64: 0, 1, 2, 3>} : (tensor<1x2x3x1xf32>) -> tensor<2x2x3x1xf32>
  %13 = binade.broadcast %10 {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x2x1x1xf32>) -> tensor<2x2x3x1xf32>
  %14 = binade.mul %13, %12 : (tensor<2x2x3x1xf32>, tensor<2x2x3x1xf32>) -> tensor<2x2x3x1xf32>
  %15 = binade.neg %2 : (tensor<2x2x1x1xf32>) -> tensor<2x2x1x1xf32>
  %16 = binade.broadcast %15 {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x2x1x1xf32>) -> tensor<2x2x3x1xf32>
  %17 = binade.mul %16, %14 : (tensor<2x2x3x1xf32>, tensor<2x2x3x1xf32>) -> tensor<2x2x3x1xf32>
  %18 = binade.reshape %bias : (tensor<6xf32>) -> tensor<1x2x3x1xf32>
  %19 = binade.broadcast %18 {axes = array<i64: 0, 1, 2, 3>} : (tensor<1x2x3x1xf32>) -> tensor<2x2x3x1xf32>
  %20 = binade.add %17, %19 : (tensor<2x2x3x1xf32>, tensor<2x2x3x1xf32>) -> tensor<2x2x3x1xf32>
  %21 = binade.reshape %14 : (tensor<2x2x3x1xf32>) -> tensor<12xf32>
  %22 = binade.gather %21, %order : (tensor<12xf32>, tensor<2x6xi64>) -> tensor<2x6xf32>
  %23 = binade.reshape %20 : (tensor<2x2x3x1xf32>) -> tensor<2x6x1xf32>
  %24 = binade.broadcast %22 {axes = array<i64: 0, 1>} : (tensor<2x6xf32>) -> tensor<2x6x2xf32>
  %25 = binade.mul %x, %24 : (tensor<2x6x2xf32>, tensor<2x6x2xf32>) -> tensor<2x6x2xf32>
  %26 = binade.broadcast %23 {axes = array<i64: 0, 1, 2>} : (tensor<2x6x1xf32>) -> tensor<2x6x2xf32>
  %27 = binade.add %25, %26 : (tensor<2x6x2xf32>, tensor<2x6x2xf32>) -> tensor<2x6x2xf32>
  return %27 : tensor<2x6x2xf32>
}

// -----

// Over two axes, without scale and bias, by a power and sums times 1 / 6.

// CHECK-LABEL: func @plain_layer_norm
// CHECK:         %[[ROWS:.*]] = binade.reshape %arg0 : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
// CHECK:         binade.layer_norm %[[ROWS]], %{{.*}} {epsilon = 0.0010000000474974513 : f64}
// CHECK-NEXT:    binade.reshape
// CHECK-NEXT:    return
func.func @plain_layer_norm(%x: tensor<4x2x3xf32>) -> tensor<4x2x3xf32> {
  %epsilon = binade.constant dense<0.0010000000474974513> : tensor<4xf32>
  %share = binade.constant dense<0.16666667> : tensor<4xf32>
  %two = binade.constant dense<2.0> : tensor<4x2x3xf32>
  %power = binade.constant dense<-0.5> : tensor<4xf32>
  %0 = binade.reduce_sum %x {axes = array<i64: 1, 2>} : (tensor<4x2x3xf32>) -> tensor<4xf32>
  %1 = binade.mul %share, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x2x3xf32>
  %3 = binade.sub %x, %2 : (tensor<4x2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
  %4 = binade.pow %3, %two : (tensor<4x2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
  %5 = binade.reduce_sum %4 {axes = array<i64: 1, 2>} : (tensor<4x2x3xf32>) -> tensor<4xf32>
  %6 = binade.mul %5, %share : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = binade.add %6, %epsilon : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = binade.pow %7, %power : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %9 = binade.broadcast %8 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x2x3xf32>
  %10 = binade.mul %9, %3 : (tensor<4x2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
  return %10 : tensor<4x2x3xf32>
}
