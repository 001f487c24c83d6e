// RUN: binade-opt %s --binade-build-gradient --split-input-file | FileCheck %s

// Attention, rows of tables, losses, dropout.

// The matrix of probabilities is not saved, only one value per query.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[ATTENTION:.*]], %[[ATTENTION2:.*]] = binade.attention %arg0, %arg1, %arg2 {causal, scale = 5.000000e-01 : f64}
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[ATTENTION2]]
// CHECK-NEXT:    %[[SAVE2:.*]] = binade.save %[[ATTENTION]]
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[ATTENTION]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[ATTENTION_GRAD:.*]], %[[ATTENTION_GRAD2:.*]], %[[ATTENTION_GRAD3:.*]] = binade.attention_grad %[[BROADCAST]], %arg0, %arg1, %arg2, %[[SAVE2]], %[[SAVE]] {binade.phase = #binade.phase<backward>, causal, scale = 5.000000e-01 : f64}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[ATTENTION_GRAD]], %[[ATTENTION_GRAD2]], %[[ATTENTION_GRAD3]]
func.func @forward(%q: tensor<4x8xf32> {binade.name = "q", binade.role = #binade.role<parameter>},
                   %k: tensor<4x8xf32> {binade.name = "k", binade.role = #binade.role<parameter>},
                   %v: tensor<4x8xf32> {binade.name = "v", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y, %lse = binade.attention %q, %k, %v {scale = 0.5 : f64, causal}
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[GATHER:.*]] = binade.gather %arg0, %arg1
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[GATHER]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[GATHER_GRAD:.*]] = binade.gather_grad %[[BROADCAST]], %arg1 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[GATHER_GRAD]]
func.func @forward(%table: tensor<9x3xf32> {binade.name = "table", binade.role = #binade.role<parameter>},
                   %i: tensor<4xi64> {binade.name = "i", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.gather %table, %i : (tensor<9x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[CROSS_ENTROPY:.*]], %[[MAXIMUM:.*]], %[[LOGARITHM:.*]] = binade.cross_entropy %arg0, %arg1 {ignore_index = -100 : i64}
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[LOGARITHM]]
// CHECK-NEXT:    %[[SAVE2:.*]] = binade.save %[[MAXIMUM]]
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[CROSS_ENTROPY]] {axes = array<i64: 0>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[CROSS_ENTROPY_GRAD:.*]] = binade.cross_entropy_grad %[[BROADCAST]], %arg0, %arg1, %[[SAVE2]], %[[SAVE]] {binade.phase = #binade.phase<backward>, ignore_index = -100 : i64}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[CROSS_ENTROPY_GRAD]]
func.func @forward(%x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %t: tensor<4xi64> {binade.name = "t", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y, %maximum, %logarithm = binade.cross_entropy %x, %t {ignore_index = -100 : i64}
    : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %loss = binade.reduce_sum %y {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// No mask is saved: the same stream of the same generator reproduces it.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[DROPOUT:.*]] = binade.dropout %arg0, %arg1 {ratio = 2.500000e-01 : f64, stream = 3 : i64}
// CHECK-NEXT:    %[[REDUCE_SUM:.*]] = binade.reduce_sum %[[DROPOUT]] {axes = array<i64: 0, 1>}
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[BROADCAST:.*]] = binade.broadcast %[[DY]] {axes = array<i64>, binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[DROPOUT_GRAD:.*]] = binade.dropout_grad %[[BROADCAST]], %arg1 {binade.phase = #binade.phase<backward>, ratio = 2.500000e-01 : f64, stream = 3 : i64}
// CHECK-NEXT:    return %[[REDUCE_SUM]], %[[DROPOUT_GRAD]]
func.func @forward(%x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %rng: tensor<2xi64> {binade.name = "rng", binade.role = #binade.role<rng>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.dropout %x, %rng {ratio = 0.25 : f64, stream = 3 : i64} : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x8xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The gradient of attention with dropout draws the mask again, too. A trained bias gets a
// gradient, a mask none.
// CHECK-LABEL: func.func @gradient
// CHECK:         %[[Y:.*]], %[[LSE:.*]] = binade.attention %arg0, %arg0, %arg0 biases(%arg1, %arg3) rng(%arg2) {ratio = 2.500000e-01 : f64, scale = 5.000000e-01 : f64, stream = 3 : i64}
// CHECK:         %{{.*}}, %{{.*}}, %{{.*}}, %[[B:.*]]:2 = binade.attention_grad %{{.*}}, %arg0, %arg0, %arg0, %{{.*}}, %{{.*}} biases(%arg1, %arg3) rng(%arg2) {binade.phase = #binade.phase<backward>, ratio = 2.500000e-01 : f64, scale = 5.000000e-01 : f64, stream = 3 : i64}
// CHECK:         return %{{.*}}, %{{.*}}, %[[B]]#0
func.func @forward(%x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %b: tensor<4x4xf32> {binade.name = "b", binade.role = #binade.role<parameter>},
                   %rng: tensor<2xi64> {binade.name = "rng", binade.role = #binade.role<rng>},
                   %m: tensor<1x4xf32> {binade.name = "m", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y, %lse = binade.attention %x, %x, %x biases(%b, %m) rng(%rng)
      {ratio = 0.25 : f64, scale = 0.5 : f64, stream = 3 : i64}
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>, tensor<1x4xf32>,
       tensor<2xi64>) -> (tensor<4x8xf32>, tensor<4xf32>)
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
