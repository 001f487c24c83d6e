// A stock mlir-opt reads the dialect and runs passes and pipelines when it has
// loaded the plugin, and knows neither without it.

// RUN: mlir-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:     --pass-pipeline='builtin.module(binade-build-gradient,binade-optimizer-pipeline{optimizer=sgd})' \
// RUN:   | FileCheck %s
// RUN: not mlir-opt %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// WITHOUT: unregistered dialect

// CHECK: func.func @step
// CHECK:   binade.mul %{{.*}} {binade.phase = #binade.phase<backward>}
// CHECK:   binade.optimizer_update @sgd
func.func @forward(
    %w: tensor<6xf32> {binade.role = #binade.role<parameter>, binade.name = "w"},
    %x: tensor<6xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"}) {
  %0 = binade.mul %w, %x : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %1 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
