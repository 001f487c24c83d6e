// RUN: binade-opt %s --split-input-file --verify-diagnostics --binade-add-evaluation-metrics=metrics=top3,accuracy,accuracy | FileCheck %s
// RUN: binade-opt %s --split-input-file --binade-add-evaluation-metrics=metrics=labels 2>&1 | FileCheck %s --check-prefix=LABELS

// Ranks are computed once, from f32, and a metric that is requested twice is added once.

// CHECK-LABEL: func.func @evaluate
// CHECK-SAME:      tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>},
// CHECK-SAME:      tensor<f32> {binade.name = "eval_labels", binade.role = #binade.role<metric>},
// CHECK-SAME:      tensor<f32> {binade.name = "eval_entropy", binade.role = #binade.role<metric>},
// CHECK-SAME:      tensor<f32> {binade.name = "eval_top3", binade.role = #binade.role<metric>},
// CHECK-SAME:      tensor<f32> {binade.name = "eval_top1", binade.role = #binade.role<metric>})
// CHECK-COUNT-1: binade.cast {{.*}} : (tensor<4x5xbf16>) -> tensor<4x5xf32>
// CHECK-NOT:     tensor<4x5xbf16>
// CHECK:         return

// LABELS-LABEL: func.func @evaluate
// LABELS-SAME:      "eval_loss"
// LABELS-SAME:      "eval_labels"
// LABELS-SAME:      "eval_entropy", binade.role = #binade.role<metric>})
func.func @evaluate(
    %x: tensor<4x5xbf16> {binade.name = "x", binade.role = #binade.role<batch>},
    %y: tensor<4xi32> {binade.name = "y", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>}) {
  %losses, %maximum, %logarithm = binade.cross_entropy %x, %y {ignore_index = -1}
      : (tensor<4x5xbf16>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %loss = binade.reduce_mean %losses {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// LABELS-LABEL: func.func @evaluate
// LABELS-SAME:      (tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>}) {
// expected-error @below {{metric 'top3' is computed from the logits and labels of the loss, which has to contain one cross-entropy, but the loss of this model contains none}}
module {
  func.func @evaluate(
      %x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<batch>})
      -> (tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>}) {
    %loss = binade.reduce_mean %x {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// expected-error @below {{metric 'top3' is computed from the logits and labels of the loss, which has to contain one cross-entropy, but the model has no loss}}
module {
}
