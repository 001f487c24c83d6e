// RUN: binade-opt %s --binade-append-optimizer='optimizer=sgd settings=lr=0.5,momentum=0.9 group=*.bias:weight_decay=0.1;lr=0.25' | FileCheck %s
// RUN: binade-opt %s --binade-append-optimizer='optimizer=sgd settings=lr=0.5 group=*:lr=0.25,fc1.*:lr=0.125' | FileCheck %s --check-prefix=LAST

// Parameters whose settings agree share one set of scalars; the settings of the first
// set are named as the rule names them, those of a group get its number.

// CHECK-LABEL: func.func @step(
// CHECK-SAME:  {binade.init = dense<5.000000e-01> : tensor<f64>, binade.name = "lr", binade.role = #binade.role<hyper>}
// CHECK-SAME:  {binade.init = dense<9.000000e-01> : tensor<f64>, binade.name = "momentum"
// CHECK-SAME:  {binade.init = dense<0.000000e+00> : tensor<f64>, binade.name = "weight_decay"
// CHECK-SAME:  {binade.init = dense<2.500000e-01> : tensor<f64>, binade.name = "lr@1"
// CHECK-SAME:  {binade.init = dense<9.000000e-01> : tensor<f64>, binade.name = "momentum@1"
// CHECK-SAME:  {binade.init = dense<1.000000e-01> : tensor<f64>, binade.name = "weight_decay@1"
// CHECK:       %[[FIRST:.*]]:6 = binade.optimizer_scalars @sgd
// CHECK:       binade.optimizer_update @sgd %[[W1:[^,]*]], {{.*}} scalars(%[[FIRST]]#0
// CHECK:       binade.optimizer_update @sgd %[[W2:[^,]*]], {{.*}} scalars(%[[FIRST]]#0
// CHECK:       %[[SECOND:.*]]:6 = binade.optimizer_scalars @sgd
// CHECK:       binade.optimizer_update @sgd %[[B1:[^,]*]], {{.*}} scalars(%[[SECOND]]#0
// CHECK-NOT:   binade.optimizer_scalars

// The last group that matches wins; settings that no parameter uses are not added.
// LAST-LABEL: func.func @step(
// LAST-SAME:  {binade.init = dense<1.250000e-01> : tensor<f64>, binade.name = "lr",
// LAST-SAME:  {binade.init = dense<2.500000e-01> : tensor<f64>, binade.name = "lr@1",
// LAST-NOT:   "lr@2"
// LAST:       {
func.func @gradient(%w1: tensor<2xf32> {binade.name = "fc1.weight", binade.role = #binade.role<parameter>},
                    %b1: tensor<2xf32> {binade.name = "fc1.bias", binade.role = #binade.role<parameter>},
                    %w2: tensor<2xf32> {binade.name = "fc2.weight", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<2xf32> {binade.name = "fc1.weight", binade.role = #binade.role<gradient>},
        tensor<2xf32> {binade.name = "fc1.bias", binade.role = #binade.role<gradient>},
        tensor<2xf32> {binade.name = "fc2.weight", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %w1 {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %loss, %w1, %b1, %w2 : tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
