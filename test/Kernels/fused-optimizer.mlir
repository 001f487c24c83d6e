// RUN: binade-opt %s --binade-optimizer-pipeline='optimizer=adamw clip=1.0 group=b:weight_decay=0' \
// RUN:   --binade-kernels-pipeline | FileCheck %s

// However many parameters there are and whatever their shapes: one launch measures all
// gradients, one updates all parameters, in the order of their groups. Scalars are computed once, between the two.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     multi
// CHECK:         %[[S:.*]]:2 = binade.launch [@[[G:gradient_statistics_[0-9]+]], @[[G]], @[[G]]](%[[A:.*]], %[[B:.*]], %[[C:.*]]) {binade.phase = #binade.phase<optimizer>} : (tensor<4x8xf32>, tensor<8xf32>, tensor<2x3x5xf32>) -> (tensor<f64>, tensor<i1>)
// CHECK-NOT:     gradient_statistics
// CHECK:         %[[U:.*]]:9 = binade.launch [@[[U:optimizer_update_[0-9]+]], @[[U]], @[[U]]]
// CHECK-SAME:    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<2x3x5xf32>, tensor<2x3x5xf32>, tensor<2x3x5xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK-NOT:     optimizer_update
// CHECK:         return

// The update is vectorized over elements; scalars are not.
// CHECK:       func.func private @[[G]](%arg0: tensor<16xf32>) -> (tensor<f64>, tensor<i1>) attributes {binade.kernel = #binade.schedule<multi_tensor>}
// CHECK:       func.func private @[[U]](%arg0: tensor<16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<f32>
// CHECK-SAME:    attributes {binade.kernel = #binade.schedule<multi_tensor>}
// CHECK-NEXT:    binade.optimizer_update @adamw %arg0, %arg1 states(%arg2, %arg3) scalars(%arg4, {{.*}}) factors(%{{.*}}, %{{.*}}) skip(
func.func @gradient(%a: tensor<4x8xf32> {binade.name = "a", binade.role = #binade.role<parameter>},
                    %b: tensor<8xf32> {binade.name = "b", binade.role = #binade.role<parameter>},
                    %c: tensor<2x3x5xf32> {binade.name = "c", binade.role = #binade.role<parameter>},
                    %da: tensor<4x8xf32>, %db: tensor<8xf32>, %dc: tensor<2x3x5xf32>)
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4x8xf32> {binade.name = "a", binade.role = #binade.role<gradient>},
        tensor<8xf32> {binade.name = "b", binade.role = #binade.role<gradient>},
        tensor<2x3x5xf32> {binade.name = "c", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %b {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %loss, %da, %db, %dc : tensor<f32>, tensor<4x8xf32>, tensor<8xf32>, tensor<2x3x5xf32>
}
