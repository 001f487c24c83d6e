// RUN: binade-opt %s --binade-append-optimizer='optimizer=sgd clip=1.5' | FileCheck %s --check-prefix=CLIP
// RUN: binade-opt %s --binade-append-optimizer='optimizer=sgd on-nonfinite=continue' | FileCheck %s --check-prefix=CONTINUE
// RUN: binade-opt %s --binade-append-optimizer='optimizer=sgd keep-gradients keep-outputs' | FileCheck %s --check-prefix=KEEP

// One norm over all gradients, and one factor min(1, clip / (norm + 1e-6)), in f64.
// CLIP:         %squares, %[[INF:.*]] = binade.gradient_statistics %[[GV:[^,]*]], %[[GW:[^ ]*]]
// CLIP:         %[[UNSCALE:.*]] = binade.unscale_factor
// CLIP:         %[[ROOT:.*]] = binade.sqrt %squares
// CLIP:         %[[EXACT:.*]] = binade.cast %[[UNSCALE]] {{.*}} -> tensor<f64>
// CLIP:         %[[NORM:.*]] = binade.mul %[[ROOT]], %[[EXACT]]
// CLIP:         %[[LIMIT:.*]] = binade.constant dense<1.500000e+00> : tensor<f64>
// CLIP:         %[[EPSILON:.*]] = binade.constant dense<9.9999999999999995E-7> : tensor<f64>
// CLIP:         %[[SHIFTED:.*]] = binade.add %[[NORM]], %[[EPSILON]]
// CLIP:         %[[RATIO:.*]] = binade.div %[[LIMIT]], %[[SHIFTED]]
// CLIP:         %[[FACTOR:.*]] = binade.min %[[RATIO]],
// CLIP:         %[[ROUNDED:.*]] = binade.cast %[[FACTOR]] {{.*}} -> tensor<f32>
// The metric is the norm before clipping.
// CLIP:         %[[METRIC:.*]] = binade.cast %[[NORM]] {{.*}} -> tensor<f32>
// The check for huge norms follows clipping.
// CLIP:         %[[CLIPPED:.*]] = binade.min %[[NORM]],
// CLIP:         %[[HUGE:.*]] = binade.compare %[[CLIPPED]],
// CLIP:         %[[BAD:.*]] = binade.select %[[HUGE]], %[[HUGE]], %[[INF]]
// CLIP:         optimizer_update @sgd %{{.*}}, %[[GV]] {{.*}} factors(%[[UNSCALE]], %[[ROUNDED]]) skip(%[[BAD]])
// CLIP:         optimizer_update @sgd %{{.*}}, %[[GW]] {{.*}} factors(%[[UNSCALE]], %[[ROUNDED]]) skip(%[[BAD]])
// CLIP:         return %{{.*}}, %[[METRIC]], %[[BAD]]

// CONTINUE-LABEL: func.func @step
// CONTINUE-NOT:   found_inf"
// CONTINUE:       optimizer_update @sgd
// CONTINUE-NOT:   skip
// CONTINUE:       %[[NEXT:.*]] = binade.add
// CONTINUE-NEXT:  return {{.*}}, %[[NEXT]]

// KEEP-LABEL: func.func @step
// KEEP-SAME:  -> (tensor<f32> {binade.name = "loss",
// KEEP-SAME:  tensor<2xf32> {binade.name = "y", binade.role = #binade.role<output>}
// KEEP-SAME:  tensor<2xf32> {binade.name = "v", binade.role = #binade.role<gradient>}
// KEEP-SAME:  tensor<3xf32> {binade.name = "w", binade.role = #binade.role<gradient>}
func.func @gradient(%v: tensor<2xf32> {binade.name = "v", binade.role = #binade.role<parameter>},
                    %w: tensor<3xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<2xf32> {binade.name = "y", binade.role = #binade.role<output>},
        tensor<2xf32> {binade.name = "v", binade.role = #binade.role<gradient>},
        tensor<3xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %v {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %gv = binade.neg %v : (tensor<2xf32>) -> tensor<2xf32>
  %gw = binade.neg %w : (tensor<3xf32>) -> tensor<3xf32>
  return %loss, %v, %gv, %gw : tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<3xf32>
}
