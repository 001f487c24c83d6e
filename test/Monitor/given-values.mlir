// RUN: binade-opt %s '--binade-insert-requested-statistics=requests=gradient:absmax;weight:lost;state:zeros' \
// RUN:   | FileCheck %s
// RUN: not binade-opt %s '--binade-insert-requested-statistics=requests=output:lost' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOTHING

// A step that only computes statistics of tensors of its caller marks them: a gradient that
// is divided by a scale, a weight before and after an update, and a state that it dequantizes.

// NOTHING: error: --stats 'output:lost' matches no value of the step

// CHECK-LABEL: func.func @step
// CHECK-SAME:    binade.name = "gradient/g/absmax"
// CHECK-SAME:    binade.name = "weight/w/lost"
// CHECK-SAME:    binade.name = "state/exp_avg/w/zeros"
// CHECK-DAG:     %[[F:.*]] = binade.unscale_factor %arg1
// CHECK-DAG:     binade.compare %arg4, %arg2 {{.*}}equal
// CHECK-DAG:     binade.dequantize %arg5, %arg6
func.func @step(
    %g: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "0",
      binade.watch = {kind = "gradient", layer = "g", scale = 1}},
    %s: tensor<f32> {binade.role = #binade.role<batch>, binade.name = "1"},
    %w: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "2",
      binade.watch = {kind = "weight", layer = "w", gradient = 3, after = 4}},
    %d: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "3"},
    %a: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "4"},
    %q: tensor<4xf8E4M3FN> {binade.role = #binade.role<batch>, binade.name = "5"},
    %p: tensor<f32> {binade.role = #binade.role<batch>, binade.name = "6"}) {
  %x = binade.dequantize %q, %p {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>,
      binade.watch = {kind = "state", layer = "exp_avg/w"}}
    : (tensor<4xf8E4M3FN>, tensor<f32>) -> tensor<4xf32>
  return
}
