// RUN: binade-opt %s --binade-set-cuda-target --binade-split-reductions --split-input-file | FileCheck %s
// RUN: binade-opt %s --binade-split-reductions --split-input-file | FileCheck %s --check-prefix=CPU
// RUN: binade-opt %s --binade-set-cuda-target --binade-kernels-pipeline --split-input-file | FileCheck %s --check-prefix=LAUNCH

// Two norms of one shape become reductions of rows, then of what these leave. Each kind
// is one launch.

// CHECK-LABEL: func.func @step
// CHECK:         %[[X:.*]] = binade.reshape %{{.*}} : (tensor<65536xf64>) -> tensor<16x4096xf64>
// CHECK:         %[[R:.*]] = binade.reduce_mean %[[X]] {axes = array<i64: 1>} : (tensor<16x4096xf64>) -> tensor<16xf64>
// CHECK:         binade.reduce_mean %[[R]] {axes = array<i64: 0>} : (tensor<16xf64>) -> tensor<f64>
// CHECK:         binade.reduce_mean %{{.*}} {axes = array<i64: 1>}
// CPU-LABEL:   func.func @step
// CPU-NOT:       reshape
// LAUNCH-LABEL: func.func @step
// LAUNCH-COUNT-2: binade.launch
// LAUNCH-NOT:   binade.launch
func.func @step(%p: tensor<65536xf32>, %q: tensor<65536xf32>) -> (tensor<f32>, tensor<f32>) {
  %0 = binade.cast %p : (tensor<65536xf32>) -> tensor<65536xf64>
  %1 = binade.mul %0, %0 : (tensor<65536xf64>, tensor<65536xf64>) -> tensor<65536xf64>
  %2 = binade.reduce_mean %1 {axes = array<i64: 0>} : (tensor<65536xf64>) -> tensor<f64>
  %3 = binade.sqrt %2 : (tensor<f64>) -> tensor<f64>
  %4 = binade.cast %3 : (tensor<f64>) -> tensor<f32>
  %5 = binade.cast %q : (tensor<65536xf32>) -> tensor<65536xf64>
  %6 = binade.mul %5, %5 : (tensor<65536xf64>, tensor<65536xf64>) -> tensor<65536xf64>
  %7 = binade.reduce_mean %6 {axes = array<i64: 0>} : (tensor<65536xf64>) -> tensor<f64>
  %8 = binade.sqrt %7 : (tensor<f64>) -> tensor<f64>
  %9 = binade.cast %8 : (tensor<f64>) -> tensor<f32>
  return %4, %9 : tensor<f32>, tensor<f32>
}

// -----

// A single tensor is reduced at once, and so are tensors that a work item reduces, that
// have no rows of equal length, or whose partial results would be rounded.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     reshape
// CPU-LABEL:   func.func @step
// LAUNCH-LABEL: func.func @step
func.func @step(%x: tensor<98304xf32>, %s: tensor<4096xf32>, %t: tensor<4096xf32>,
                %o: tensor<65539xf32>, %u: tensor<65539xf32>, %h: tensor<65536xbf16>,
                %i: tensor<65536xbf16>)
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<bf16>,
        tensor<bf16>) {
  %0 = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<98304xf32>) -> tensor<f32>
  %1 = binade.reduce_sum %s {axes = array<i64: 0>} : (tensor<4096xf32>) -> tensor<f32>
  %2 = binade.reduce_sum %t {axes = array<i64: 0>} : (tensor<4096xf32>) -> tensor<f32>
  %3 = binade.reduce_sum %o {axes = array<i64: 0>} : (tensor<65539xf32>) -> tensor<f32>
  %4 = binade.reduce_sum %u {axes = array<i64: 0>} : (tensor<65539xf32>) -> tensor<f32>
  %5 = binade.reduce_sum %h {axes = array<i64: 0>} : (tensor<65536xbf16>) -> tensor<bf16>
  %6 = binade.reduce_sum %i {axes = array<i64: 0>} : (tensor<65536xbf16>) -> tensor<bf16>
  return %0, %1, %2, %3, %4, %5, %6
    : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<bf16>,
      tensor<bf16>
}
