// RUN: binade-opt %s --binade-autodiff-pipeline \
// RUN:   --binade-optimizer-pipeline="optimizer=sgd settings=lr=0.5" -o %t.mlir
// RUN: binade-translate --export-onnx %t.mlir -o %t.onnx
// RUN: %python %S/Inputs/print_onnx.py %t.onnx | FileCheck %s

// A training step as ONNX: parameters, states and settings are inputs, whose
// initial values are initializers. The step returns new values under names
// that begin with `new.`; the caller passes them to the next step.

// CHECK: step (float[2] w, float[2] "momentum_buffer/w", int64 step, float[2] g, double lr, double momentum,
// CHECK-SAME: => (float loss, float grad_norm, bool found_inf, float[2] "new.w", float[2] "new.momentum_buffer/w", int64 "new.step")
// CHECK-NEXT: <float[2] "momentum_buffer/w" = {0,0}, int64 step = {0}, double lr = {0.5}, double momentum = {0},

// The weight is updated by its gradient `g`, unless an element of `g` is not finite.
// CHECK: "[[NEXT:.*]]" = Sub (w, "{{.*}}")
// CHECK: "[[KEPT:.*]]" = Where ("{{.*}}", w, "[[NEXT]]")
// CHECK: "new.w" = Identity ("[[KEPT]]")
func.func @forward(
    %w: tensor<2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
    %g: tensor<2xf32> {binade.name = "g", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %0 = binade.mul %w, %g : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %loss = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
