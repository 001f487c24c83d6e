// RUN: binade-opt %s --binade-optimizer-pipeline='optimizer=sgd clip=1.0' \
// RUN:     '--binade-insert-requested-statistics=requests=gradient:norm,zeros;scaled_gradient:norm,zeros,absmax' \
// RUN:     --cse | FileCheck %s
// RUN: binade-opt %s --binade-optimizer-pipeline='optimizer=sgd clip=1.0' \
// RUN:     '--binade-insert-requested-statistics=requests=gradient:norm,zeros;scaled_gradient:norm,zeros,absmax' \
// RUN:     --binade-kernels-pipeline | FileCheck %s --check-prefix=KERNELS

// A gradient is measured once for all requests. The reported norm and the clip share one
// square root of the sum of squares; statistics share theirs, and where there is no loss scale
// both kinds of gradients do.

// CHECK-LABEL: func.func @step
// CHECK:         binade.gradient_statistics
// CHECK-NOT:     binade.gradient_statistics
// CHECK:         binade.sqrt %squares
// CHECK-COUNT-2: binade.optimizer_update
// CHECK-COUNT-2: binade.sqrt %
// CHECK-NOT:     binade.sqrt

// One kernel reads a gradient, with one sum for each norm and each count.

// KERNELS-LABEL: func.func @step
// KERNELS:         %[[G:.*]]:3 = binade.launch [@tanh_
// KERNELS-NEXT:    binade.launch [@[[LOOK:.*]]](%[[G]]#0)
// KERNELS-NEXT:    binade.launch [@[[LOOK]]](%[[G]]#1)
// KERNELS-NEXT:    binade.launch [@gradient_statistics_{{[0-9]+}}, {{.*}}](%[[G]]#0, %[[G]]#1)
// KERNELS-NOT:     launch {{.*}}(%[[G]]#0)
// KERNELS:         return
// KERNELS:       func.func private @[[LOOK]](
// KERNELS-COUNT-2: binade.reduce_sum
// KERNELS-NOT:     binade.reduce_sum
// KERNELS:         binade.reduce_max
// KERNELS-NOT:     binade.reduce_
// KERNELS:         return
func.func @gradient(
    %a: tensor<4x8xf32> {binade.name = "a", binade.role = #binade.role<parameter>},
    %b: tensor<4x8xf32> {binade.name = "b", binade.role = #binade.role<parameter>},
    %x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4x8xf32> {binade.name = "a", binade.role = #binade.role<gradient>},
        tensor<4x8xf32> {binade.name = "b", binade.role = #binade.role<gradient>}) {
  %da = binade.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %db = binade.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = binade.reduce_sum %da {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss, %da, %db : tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>
}
