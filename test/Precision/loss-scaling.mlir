// RUN: binade-opt %s --binade-assign-precision=policy=fp16-amp --binade-materialize-precision | FileCheck %s
// RUN: binade-opt %s --binade-assign-precision=policy=fp16-amp --binade-materialize-precision \
// RUN:   --binade-materialize-precision | FileCheck %s --check-prefix=TWICE
// RUN: binade-opt %s --binade-assign-precision=policy=bf16-amp --binade-materialize-precision | FileCheck %s --check-prefix=BF16
// RUN: echo "{name: p, narrow: f16, wide: f32, loss_scale: {static: 1024}}" > %t.static.yaml
// RUN: binade-opt %s --binade-assign-precision=policy=%t.static.yaml --binade-materialize-precision \
// RUN:   --binade-materialize-precision | FileCheck %s --check-prefix=STATIC
// RUN: echo "{name: p, narrow: f16, wide: f32, loss_scale: {delay: 1, hysteresis: 2, min: 1, max: 65536}}" > %t.deepspeed.yaml
// RUN: binade-opt %s --binade-assign-precision=policy=%t.deepspeed.yaml --binade-materialize-precision \
// RUN:   | FileCheck %s --check-prefix=DEEPSPEED

// The scale and its count are state of the program; the backward part starts from the
// scale, the optimizer divides by it, and what it found decides about the next one.

// CHECK-LABEL: func.func @step(
// CHECK-SAME:    %[[SCALE:[^:]*]]: tensor<f32> {binade.init = dense<6.553600e+04> : tensor<f32>, binade.name = "scale", binade.role = #binade.role<scaler>}
// CHECK-SAME:    %[[COUNT:[^:]*]]: tensor<i64> {binade.init = dense<0> : tensor<i64>, binade.name = "growth", binade.role = #binade.role<scaler>}
// CHECK-SAME:    {binade.name = "scale", binade.role = #binade.role<scaler>}
// CHECK-SAME:    {binade.name = "growth", binade.role = #binade.role<scaler>}
// CHECK:         binade.gradient_seed %[[SCALE]] {binade.phase = #binade.phase<backward>}
// CHECK:         %{{.*}}, %[[BAD:.*]] = binade.gradient_statistics
// CHECK:         binade.unscale_factor %[[SCALE]]
// CHECK:         %[[NEW:.*]], %[[NEXT:.*]] = binade.update_scale %[[SCALE]], %[[COUNT]], %[[BAD]] {backoff = 5.000000e-01 : f64, binade.phase = #binade.phase<optimizer>, growth = 2.000000e+00 : f64, interval = 2000 : i64}
// CHECK:         return {{.*}}, %[[NEW]], %[[NEXT]] :

// TWICE-COUNT-1: binade.update_scale
// TWICE-NOT:     binade.update_scale

// A scale that never changes is a constant, which the step reports.

// STATIC-LABEL: func.func @step(
// STATIC-NOT:     binade.role<scaler>
// STATIC-SAME:    {binade.name = "loss_scale", binade.role = #binade.role<metric>}
// STATIC:         %[[SCALE:.*]] = binade.constant dense<1.024000e+03> : tensor<f32>
// STATIC:         binade.gradient_seed %[[SCALE]]
// STATIC:         binade.unscale_factor %[[SCALE]]
// STATIC-NOT:     binade.update_scale
// STATIC:         return {{.*}}, %[[SCALE]] :

// DEEPSPEED-LABEL: func.func @step(
// DEEPSPEED-SAME:    %[[COUNT:[^:]*]]: tensor<i64> {binade.init = dense<-1> : tensor<i64>, binade.name = "growth"
// DEEPSPEED-SAME:    %[[LEFT:[^:]*]]: tensor<i64> {binade.init = dense<2> : tensor<i64>, binade.name = "hysteresis"
// DEEPSPEED:         %[[NEW:.*]], %[[NEXT:.*]], %[[FEWER:.*]] = binade.update_scale %{{.*}}, %[[COUNT]], %{{.*}}, %[[LEFT]] {{.*}}delay = 1 : i64{{.*}}hysteresis = 2 : i64{{.*}}max = 6.553600e+04 : f64, min = 1.000000e+00 : f64
// DEEPSPEED:         return {{.*}}, %[[NEW]], %[[NEXT]], %[[FEWER]] :

// BF16-LABEL: func.func @step(
// BF16-NOT:   binade.role<scaler>
// BF16:       binade.gradient_seed {
// BF16-NOT:   binade.update_scale
func.func @step(%w: tensor<f32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<i1> {binade.name = "found_inf", binade.role = #binade.role<metric>},
        tensor<f32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
  %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
  %squares, %bad = binade.gradient_statistics %seed : (tensor<f32>) -> (tensor<f64>, tensor<i1>)
  %factor = binade.unscale_factor : () -> tensor<f32>
  %new = binade.mul %seed, %factor {binade.phase = #binade.phase<optimizer>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %w, %bad, %new : tensor<f32>, tensor<i1>, tensor<f32>
}
