// RUN: binade-opt %s --binade-build-gradient --split-input-file | FileCheck %s

// What the pass adds in addition to the adjoints: the seed, phases, saved values, results.

// CHECK-LABEL: func.func @gradient
// CHECK-SAME:    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}, tensor<4x8xf32> {binade.name = "w", binade.role = #binade.role<gradient>})
// CHECK-NEXT:    %[[H:.*]] = binade.mul %arg0, %arg1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:    %[[Y:.*]] = binade.tanh %[[H]]
// CHECK-NEXT:    %[[SAVED:.*]] = binade.save %[[Y]] : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:    %[[LOSS:.*]] = binade.reduce_sum %[[Y]]
// CHECK-NEXT:    %[[SEED:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
// CHECK-NEXT:    %[[DY:.*]] = binade.broadcast %[[SEED]] {axes = array<i64>, binade.phase = #binade.phase<backward>} : (tensor<f32>) -> tensor<4x8xf32>
// CHECK-NEXT:    binade.constant dense<1.000000e+00>
// CHECK-NEXT:    binade.mul %[[SAVED]], %[[SAVED]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    binade.sub
// CHECK-NEXT:    %[[DH:.*]] = binade.mul %[[DY]]
// The batch is an argument and is not saved. Its own gradient is not computed, because it
// is not requested.
// CHECK-NEXT:    %[[DW:.*]] = binade.mul %[[DH]], %arg1 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[LOSS]], %[[DW]]
func.func @forward(%w: tensor<4x8xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                   %x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %h = binade.mul %w, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = binade.tanh %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Gradients of the same value are added, in the order of the adjoints: last use first.

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[SEED:.*]] = binade.gradient_seed
// CHECK-NEXT:    %[[THIRD:.*]] = binade.mul %[[SEED]], %arg2
// CHECK-NEXT:    %[[SECOND:.*]] = binade.mul %[[SEED]], %arg1
// CHECK-NEXT:    %[[SUM:.*]] = binade.add %[[THIRD]], %[[SECOND]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[FIRST:.*]] = binade.neg %[[SEED]]
// CHECK-NEXT:    %[[ALL:.*]] = binade.add %[[SUM]], %[[FIRST]]
// CHECK-NEXT:    return %{{.*}}, %[[ALL]]
func.func @forward(%w: tensor<f32> {binade.name = "w", binade.role = #binade.role<parameter>},
                   %x: tensor<f32> {binade.name = "x", binade.role = #binade.role<batch>},
                   %y: tensor<f32> {binade.name = "y", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %first = binade.neg %w : (tensor<f32>) -> tensor<f32>
  %second = binade.mul %w, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %third = binade.mul %w, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %sum = binade.add %first, %second : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %loss = binade.add %sum, %third : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A value that several adjoints read is saved once; constants and arguments never.

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[H:.*]] = binade.mul %arg0
// CHECK-NEXT:    binade.save %[[H]]
// CHECK-NEXT:    %[[A:.*]] = binade.log %[[H]]
// CHECK-NEXT:    binade.save %[[A]]
// CHECK-NOT:     binade.save
// CHECK:         return
func.func @forward(%w: tensor<8xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %half = binade.constant dense<0.5> : tensor<8xf32>
  %h = binade.mul %w, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %a = binade.log %h : (tensor<8xf32>) -> tensor<8xf32>
  %b = binade.mul %h, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %c = binade.mul %b, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %d = binade.add %h, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %e = binade.gelu %h : (tensor<8xf32>) -> tensor<8xf32>
  %f = binade.add %d, %e : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %loss = binade.reduce_sum %f {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A loss of shape 1 gets a seed of its shape; what does not reach the loss gets no
// adjoint; backward ops have the location of the op that they belong to.

// CHECK-LABEL: func.func @gradient
// CHECK:         binade.exp
// CHECK:         %[[SEED:.*]] = binade.gradient_seed
// CHECK-NEXT:    %[[ONE:.*]] = binade.reshape %[[SEED]] {{.*}} : (tensor<f32>) -> tensor<1xf32>
// CHECK-NEXT:    %[[DW:.*]] = binade.neg %[[ONE]]
// CHECK-NEXT:    return %{{.*}}, %{{.*}}, %[[DW]]
func.func @forward(%w: tensor<1xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<1xf32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<1xf32> {binade.name = "y", binade.role = #binade.role<output>}) {
  %loss = binade.neg %w : (tensor<1xf32>) -> tensor<1xf32>
  %y = binade.exp %w : (tensor<1xf32>) -> tensor<1xf32>
  return %loss, %y : tensor<1xf32>, tensor<1xf32>
}
