// RUN: binade-opt %s --binade-optimizer-pipeline='optimizer=sgd' --binade-kernels-pipeline \
// RUN:   --binade-conversion-pipeline | FileCheck %s
// RUN: binade-opt %s --binade-optimizer-pipeline='optimizer=sgd' --binade-kernels-pipeline \
// RUN:   --binade-conversion-pipeline --binade-target-cpu-pipeline | FileCheck %s --check-prefix=LLVM

// Kernels of a step become loops over memory. The step itself, whose launches are in the
// plan, and the rule of the optimizer are removed.

// CHECK:       module attributes {binade.target = {{.*}}} {
// CHECK-NOT:   binade.
// CHECK-NOT:   func.func @step
// CHECK-NOT:   @sgd.update
// CHECK:       func.func {{.*}}@gradient_statistics_{{[0-9]+}}.items(
// CHECK:       func.func {{.*}}@optimizer_update_{{[0-9]+}}.items(
// CHECK:         vector.load
// CHECK:         vector.store
// CHECK-NOT:   binade.

// LLVM-NOT:    func.func
// LLVM:        llvm.func @gradient_statistics_{{[0-9]+}}_finish(
// LLVM:        llvm.func @optimizer_update_[[#N:]](%arg0: !llvm.ptr, %arg1: i64, %arg2: i64)
// LLVM-NOT:    func.func
func.func @gradient(%w: tensor<64xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                    %g: tensor<64xf32>)
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<64xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %w {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  return %loss, %g : tensor<f32>, tensor<64xf32>
}
