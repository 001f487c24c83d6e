// RUN: binade-opt %s --binade-append-optimizer='optimizer=sgd settings=skip_zeros=1' | FileCheck %s

// The update keeps the old parameter and the old states where the gradient is 0.

// CHECK-LABEL: func.func private @sgd.scalars(
// CHECK-SAME:    %[[ASKED:[a-z0-9]+]]: f64)
// CHECK:         return {{.*}}, %[[ASKED]] :
// CHECK-LABEL: func.func private @sgd.update(
// CHECK-SAME:    %[[P:[a-z0-9]+]]: f32, %[[G:[a-z0-9]+]]: f32, %[[M:[a-z0-9]+]]: f32
// CHECK:         %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[IS_ZERO:.*]] = arith.cmpf oeq, %[[G]], %{{.*}} : f32
// CHECK:         %[[IS_ASKED:.*]] = arith.cmpf one, %{{.*}}, %{{.*}} : f32
// CHECK:         %[[SKIPPED:.*]] = arith.andi %[[IS_ZERO]], %[[IS_ASKED]]
// CHECK-DAG:     arith.select %[[SKIPPED]], %[[P]], %{{.*}} : f32
// CHECK-DAG:     arith.select %[[SKIPPED]], %[[M]], %{{.*}} : f32
// CHECK-LABEL: func.func @step(
// CHECK-SAME:    binade.name = "skip_zeros"

func.func @gradient(%w: tensor<4xf32> {binade.role = #binade.role<parameter>, binade.name = "w"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"},
        tensor<4xf32> {binade.role = #binade.role<gradient>, binade.name = "w"}) {
  %loss = binade.reduce_sum %w {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
