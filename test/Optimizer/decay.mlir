// RUN: binade-opt %s --binade-append-optimizer='optimizer=adamw settings=weight_decay=0.5 decay=matrices' | FileCheck %s
// RUN: binade-opt %s --binade-append-optimizer='optimizer=adamw settings=weight_decay=0.5 decay=matrices group=*.bias:lr=0.25,norm:weight_decay=0.125' | FileCheck %s --check-prefix=GROUP
// RUN: binade-opt %s --binade-append-optimizer='optimizer=adamw settings=weight_decay=0.5 decay=all' | FileCheck %s --check-prefix=ALL
// RUN: binade-opt %s --binade-append-optimizer='optimizer=sgd decay=matrices' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not binade-opt %s --binade-append-optimizer='decay=vectors' 2>&1 | FileCheck %s --check-prefix=WRONG

// With decay=matrices, parameters with fewer than two axes have no weight decay.

// CHECK-LABEL: func.func @step(
// CHECK-SAME:  dense<5.000000e-01> : tensor<f64>, binade.name = "weight_decay",
// CHECK-SAME:  dense<0.000000e+00> : tensor<f64>, binade.name = "weight_decay@1",
// CHECK-NOT:   "weight_decay@2"
// CHECK:       %[[MATRICES:.*]]:{{[0-9]+}} = binade.optimizer_scalars @adamw
// CHECK:       binade.optimizer_update @adamw %[[WEIGHT:[^,]*]], {{.*}} scalars(%[[MATRICES]]#0
// CHECK:       %[[VECTORS:.*]]:{{[0-9]+}} = binade.optimizer_scalars @adamw
// CHECK:       binade.optimizer_update @adamw %[[BIAS:[^,]*]], {{.*}} scalars(%[[VECTORS]]#0
// CHECK:       binade.optimizer_update @adamw %[[NORM:[^,]*]], {{.*}} scalars(%[[VECTORS]]#0
// CHECK-NOT:   binade.optimizer_scalars

// A group that sets weight_decay overrides decay=matrices, another one does not.
// GROUP-LABEL: func.func @step(
// GROUP-SAME:  dense<1.000000e-03> : tensor<f64>, binade.name = "lr",
// GROUP-SAME:  dense<5.000000e-01> : tensor<f64>, binade.name = "weight_decay",
// GROUP-SAME:  dense<2.500000e-01> : tensor<f64>, binade.name = "lr@1",
// GROUP-SAME:  dense<0.000000e+00> : tensor<f64>, binade.name = "weight_decay@1",
// GROUP-SAME:  dense<1.000000e-03> : tensor<f64>, binade.name = "lr@2",
// GROUP-SAME:  dense<1.250000e-01> : tensor<f64>, binade.name = "weight_decay@2",

// ALL-LABEL: func.func @step(
// ALL-SAME:  dense<5.000000e-01> : tensor<f64>, binade.name = "weight_decay",
// ALL-NOT:   "weight_decay@1"

// NONE: warning: decay=matrices has no effect: 'weight_decay' of optimizer 'sgd' is 0; a setting such as weight_decay=0.01 changes it
// WRONG: error: decay must be all or matrices, got 'vectors'
func.func @gradient(%weight: tensor<2x1xf32> {binade.name = "fc.weight", binade.role = #binade.role<parameter>},
                    %bias: tensor<2xf32> {binade.name = "fc.bias", binade.role = #binade.role<parameter>},
                    %norm: tensor<2xf32> {binade.name = "norm", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<2x1xf32> {binade.name = "fc.weight", binade.role = #binade.role<gradient>},
        tensor<2xf32> {binade.name = "fc.bias", binade.role = #binade.role<gradient>},
        tensor<2xf32> {binade.name = "norm", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %bias {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %loss, %weight, %bias, %norm : tensor<f32>, tensor<2x1xf32>, tensor<2xf32>, tensor<2xf32>
}
