// RUN: binade-opt %s --binade-append-optimizer='optimizer=adamw' | FileCheck %s

// The rule file is copied before the module, the step is appended, and every argument that the
// step replaces has a result of the same role and name.

// CHECK:         binade.optimizer @adamw
// CHECK-SAME:    #binade.setting<"weight_decay" = 1.000000e-02 : f64 min 0.000000e+00 : f64>
// CHECK:         func.func private @adamw.scalars(
// CHECK:         func.func private @adamw.update(

// CHECK-LABEL:   func.func @step(
// CHECK-SAME:    %[[W:[^:]*]]: tensor<4x8xf32> {binade.name = "w", binade.role = #binade.role<parameter>}
// CHECK-SAME:    %[[M:[^:]*]]: tensor<4x8xf32> {binade.init = dense<0.000000e+00> : tensor<4x8xf32>, binade.name = "exp_avg/w", binade.role = #binade.role<state>}
// CHECK-SAME:    %[[V:[^:]*]]: tensor<4x8xf32> {binade.init = dense<0.000000e+00> : tensor<4x8xf32>, binade.name = "exp_avg_sq/w", binade.role = #binade.role<state>}
// CHECK-SAME:    %[[STEP:[^:]*]]: tensor<i64> {binade.init = dense<0> : tensor<i64>, binade.name = "step", binade.role = #binade.role<step>}
// CHECK-SAME:    %[[G:[^:]*]]: tensor<4x8xf32> {binade.name = "g", binade.role = #binade.role<batch>}
// CHECK-SAME:    %[[LR:[^:]*]]: tensor<f64> {binade.init = dense<1.000000e-03> : tensor<f64>, binade.name = "lr", binade.role = #binade.role<hyper>}
// CHECK-SAME:    {{.*}}binade.name = "beta1"{{.*}}binade.name = "beta2"{{.*}}binade.name = "eps"{{.*}}binade.name = "weight_decay"
// CHECK-SAME:    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}
// CHECK-SAME:    {binade.name = "grad_norm", binade.role = #binade.role<metric>}
// CHECK-SAME:    tensor<i1> {binade.name = "found_inf", binade.role = #binade.role<metric>}
// CHECK-SAME:    tensor<4x8xf32> {binade.name = "w", binade.role = #binade.role<parameter>}
// CHECK-SAME:    {binade.name = "exp_avg/w", binade.role = #binade.role<state>}
// CHECK-SAME:    {binade.name = "exp_avg_sq/w", binade.role = #binade.role<state>}
// CHECK-SAME:    tensor<i64> {binade.name = "step", binade.role = #binade.role<step>})

// CHECK:         %squares, %[[INF:.*]] = binade.gradient_statistics %[[G]] {binade.phase = #binade.phase<optimizer>}
// CHECK:         %[[FACTOR:.*]] = binade.unscale_factor
// CHECK:         %[[ROOT:.*]] = binade.sqrt %squares
// CHECK:         %[[NORM:.*]] = binade.mul %[[ROOT]]

// Its square is more than f32 holds: 2^64 less an ulp is the largest norm.
// CHECK:         %[[LIMIT:.*]] = binade.constant dense<1.8446742974197924E+19> : tensor<f64>
// CHECK:         %[[HUGE:.*]] = binade.compare %[[NORM]], %[[LIMIT]] {{.*}}greater
// CHECK:         %[[BAD:.*]] = binade.select %[[HUGE]], %[[HUGE]], %[[INF]]
// CHECK:         %[[K:.*]]:7 = binade.optimizer_scalars @adamw(%[[STEP]], %[[LR]], {{.*}}) {binade.phase = #binade.phase<optimizer>}
// CHECK:         %[[NEW:.*]], %[[STATES:.*]]:2 = binade.optimizer_update @adamw %[[W]], %[[G]] states(%[[M]], %[[V]])
// CHECK-SAME:      scalars(%[[K]]#0, {{.*}}, %[[K]]#6) factors(%[[FACTOR]]) skip(%[[BAD]])

// A skipped step is not counted.
// CHECK:         %[[NEXT:.*]] = binade.add %[[STEP]],
// CHECK:         %[[COUNT:.*]] = binade.select %[[BAD]], %[[STEP]], %[[NEXT]]
// CHECK:         return %{{.*}}, %{{.*}}, %[[BAD]], %[[NEW]], %[[STATES]]#0, %[[STATES]]#1, %[[COUNT]]
func.func @gradient(%w: tensor<4x8xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                    %g: tensor<4x8xf32> {binade.name = "g", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<4x8xf32> {binade.name = "y", binade.role = #binade.role<output>},
        tensor<4x8xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %w {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss, %w, %g : tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>
}
