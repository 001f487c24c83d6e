// RUN: binade-opt %s --binade-build-gradient --split-input-file | FileCheck %s

// Named ops have named gradients.

// The gradient is computed from the result.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[SOFTMAX:.*]] = binade.softmax %arg0
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[SOFTMAX]]
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[SOFTMAX]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[SOFTMAX_GRAD:.*]] = binade.softmax_grad %[[BROADCAST]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[SOFTMAX_GRAD]]
func.func @forward(%x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.softmax %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[LOG_SOFTMAX:.*]] = binade.log_softmax %arg0
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[LOG_SOFTMAX]]
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[LOG_SOFTMAX]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[LOG_SOFTMAX_GRAD:.*]] = binade.log_softmax_grad %[[BROADCAST]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[LOG_SOFTMAX_GRAD]]
func.func @forward(%x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.log_softmax %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Statistics are saved, not recomputed.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[LAYER_NORM:.*]], %[[LAYER_NORM2:.*]], %[[LAYER_NORM3:.*]] = binade.layer_norm %arg0, %arg1, %arg2 {epsilon = 1.000000e-05 : f64}
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[LAYER_NORM3]]
// CHECK-NEXT:    %[[SAVE2:.*]] = binade.save %[[LAYER_NORM2]]
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[LAYER_NORM]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[LAYER_NORM_GRAD:.*]] = binade.layer_norm_grad %[[BROADCAST]], %arg0, %arg1, %[[SAVE2]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[LAYER_NORM_PARAM_GRAD:.*]], %[[LAYER_NORM_PARAM_GRAD2:.*]] = binade.layer_norm_param_grad %[[BROADCAST]], %arg0, %[[SAVE2]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[LAYER_NORM_GRAD]], %[[LAYER_NORM_PARAM_GRAD]], %[[LAYER_NORM_PARAM_GRAD2]]
func.func @forward(%x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %s: tensor<8xf32> {binade.name = "s", binade.role = #binade.role<parameter>},
                   %b: tensor<8xf32> {binade.name = "b", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y, %mean, %rstd = binade.layer_norm %x, %s, %b {epsilon = 1.0e-5 : f64}
    : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The gradient through the statistics is part of the named op: nothing flows into
// the op that computed them.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[BATCH_NORM_STATISTICS:.*]], %[[BATCH_NORM_STATISTICS2:.*]] = binade.batch_norm_statistics %arg0 {axis = 1 : i64}
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[BATCH_NORM_STATISTICS2]]
// CHECK-NEXT:    %[[SAVE2:.*]] = binade.save %[[BATCH_NORM_STATISTICS]]
// CHECK-NEXT:    %[[BATCH_NORM:.*]] = binade.batch_norm %arg0, %arg1, %arg2, %[[BATCH_NORM_STATISTICS]], %[[BATCH_NORM_STATISTICS2]] {axis = 1 : i64, epsilon = 1.000000e-05 : f64, training}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[BATCH_NORM]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BATCH_NORM_PARAM_GRAD:.*]], %[[BATCH_NORM_PARAM_GRAD2:.*]] = binade.batch_norm_param_grad %[[BROADCAST]], %arg0, %[[SAVE2]], %[[SAVE]] {axis = 1 : i64, binade.phase = #binade.phase<backward>, epsilon = 1.000000e-05 : f64}
// CHECK-NEXT:    %[[BATCH_NORM_GRAD:.*]] = binade.batch_norm_grad %[[BROADCAST]], %arg0, %arg1, %[[SAVE2]], %[[SAVE]], %[[BATCH_NORM_PARAM_GRAD]], %[[BATCH_NORM_PARAM_GRAD2]] {axis = 1 : i64, binade.phase = #binade.phase<backward>, epsilon = 1.000000e-05 : f64, training}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[BATCH_NORM_GRAD]], %[[BATCH_NORM_PARAM_GRAD]], %[[BATCH_NORM_PARAM_GRAD2]]
func.func @forward(%x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %s: tensor<8xf32> {binade.name = "s", binade.role = #binade.role<parameter>},
                   %b: tensor<8xf32> {binade.name = "b", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %mean, %var = binade.batch_norm_statistics %x {axis = 1 : i64} : (tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %y = binade.batch_norm %x, %s, %b, %mean, %var {axis = 1 : i64, epsilon = 1.0e-5 : f64, training}
    : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
