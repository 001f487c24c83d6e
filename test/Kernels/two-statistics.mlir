// RUN: binade-opt %s --binade-kernels-pipeline | FileCheck %s

// A multi-tensor launch has one scalar result of each kind for all of its tensors: two ops
// that reduce tensors to scalars share a kernel, but not a launch.

// CHECK-LABEL: func.func @step
// CHECK-SAME:      (%[[A:.*]]: tensor<8x4xf32> {{.*}}, %[[B:.*]]: tensor<6xf32>
// CHECK:         %[[BOTH:.*]]:2 = binade.launch [@[[KERNEL:gradient_statistics_0]], @[[KERNEL]]](%[[A]], %[[B]])
// CHECK:         %[[ONE:.*]]:2 = binade.launch [@[[KERNEL]]](%[[B]])
// CHECK:         return %[[BOTH]]#0, %[[BOTH]]#1, %[[ONE]]#0, %[[ONE]]#1
// CHECK:       func.func private @[[KERNEL]]
func.func @step(%a: tensor<8x4xf32> {binade.name = "a", binade.role = #binade.role<batch>},
                %b: tensor<6xf32> {binade.name = "b", binade.role = #binade.role<batch>})
    -> (tensor<f64> {binade.name = "s", binade.role = #binade.role<output>},
        tensor<i1> {binade.name = "f", binade.role = #binade.role<output>},
        tensor<f64> {binade.name = "t", binade.role = #binade.role<output>},
        tensor<i1> {binade.name = "g", binade.role = #binade.role<output>}) {
  %s, %f = binade.gradient_statistics %a, %b
    : (tensor<8x4xf32>, tensor<6xf32>) -> (tensor<f64>, tensor<i1>)
  %t, %g = binade.gradient_statistics %b : (tensor<6xf32>) -> (tensor<f64>, tensor<i1>)
  return %s, %f, %t, %g : tensor<f64>, tensor<i1>, tensor<f64>, tensor<i1>
}
