// RUN: binade-opt %s --binade-optimizer-pipeline=optimizer=sgd --binade-kernels-pipeline | FileCheck %s

// A gradient that is a broadcast scalar is materialized in memory after the scalar is
// computed: a multi-tensor kernel indexes elements and cannot broadcast a scalar.

// CHECK-LABEL: func.func @step
// CHECK:         %[[D:.*]] = binade.launch [@[[DIV:div_[0-9]+]]](%{{.*}})
// CHECK:         %[[G:.*]] = binade.launch [@[[SPREAD:broadcast_[0-9]+]]](%[[D]])
// CHECK:         binade.launch [@gradient_statistics_{{[0-9]+}}](%[[G]])
// CHECK:         binade.launch [@optimizer_update_{{[0-9]+}}]
func.func @gradient(%a: tensor<4x8xf32> {binade.name = "a", binade.role = #binade.role<parameter>},
                    %x: tensor<f32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4x8xf32> {binade.name = "a", binade.role = #binade.role<gradient>}) {
  %two = binade.constant dense<2.0> : tensor<f32>
  %d = binade.div %x, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %da = binade.broadcast %d {axes = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  return %x, %da : tensor<f32>, tensor<4x8xf32>
}
