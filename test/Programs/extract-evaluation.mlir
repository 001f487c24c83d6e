// RUN: binade-opt %s --split-input-file --binade-programs-pipeline | FileCheck %s

// The ops of the loss stay, with the arguments that they read and without their initial
// values; dropout is removed.

// CHECK-LABEL: func.func @step
// CHECK:         binade.dropout
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME:      (%[[X:[a-z0-9]*]]: tensor<4xf16> {binade.name = "x", binade.role = #binade.role<batch>})
// CHECK-SAME:      -> (tensor<f32> {binade.name = "eval_loss", binade.role = #binade.role<metric>})
// CHECK-NEXT:    %[[Y:.*]] = binade.cast %[[X]] : (tensor<4xf16>) -> tensor<4xf32>
// CHECK-NEXT:    %[[LOSS:.*]] = binade.reduce_mean %[[Y]]
// CHECK-NEXT:    return %[[LOSS]] : tensor<f32>
func.func @step(
    %w: tensor<4xf32> {binade.role = #binade.role<parameter>, binade.name = "w",
                       binade.init = dense<1.0> : tensor<4xf32>},
    %rng: tensor<2xi64> {binade.role = #binade.role<rng>, binade.name = "rng"},
    %x: tensor<4xf16> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"},
        tensor<4xf32> {binade.role = #binade.role<parameter>, binade.name = "w"}) {
  %y = binade.dropout %x, %rng {ratio = 0.5 : f64, stream = 0 : i64}
      : (tensor<4xf16>, tensor<2xi64>) -> tensor<4xf32>
  %loss = binade.reduce_mean %y {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %next = binade.sub %w, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %next : tensor<f32>, tensor<4xf32>
}

// -----

// Statistics of the batch are replaced by the running statistics that they update, also
// through a cast; without running statistics those of the batch remain.

// CHECK-LABEL: func.func @evaluate
// CHECK-SAME:      (%[[M:[a-z0-9]*]]: tensor<3xf32> {binade.name = "mean", binade.role = #binade.role<buffer>}
// CHECK-SAME:       %[[V:[a-z0-9]*]]: tensor<3xf32> {binade.name = "variance", binade.role = #binade.role<buffer>}
// CHECK-SAME:       %[[X:[a-z0-9]*]]: tensor<2x3xf16> {binade.name = "x"
// CHECK:         %[[Y:.*]] = binade.batch_norm %[[X]], %{{.*}}, %{{.*}}, %[[M]], %[[V]] {axis = 1 : i64, epsilon = 1.000000e-05 : f64}
// CHECK:         binade.batch_norm_statistics %[[Y]]
// CHECK:         binade.batch_norm {{.*}} training}
func.func @step(
    %running_mean: tensor<3xf32> {binade.role = #binade.role<buffer>, binade.name = "mean"},
    %running_variance: tensor<3xf32> {binade.role = #binade.role<buffer>, binade.name = "variance"},
    %x: tensor<2x3xf16> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"},
        tensor<3xf32> {binade.role = #binade.role<buffer>, binade.name = "variance"},
        tensor<3xf32> {binade.role = #binade.role<buffer>, binade.name = "mean"}) {
  %one = binade.constant dense<1.0> : tensor<3xf32>
  %mean, %variance = binade.batch_norm_statistics %x {axis = 1 : i64}
      : (tensor<2x3xf16>) -> (tensor<3xf32>, tensor<3xf32>)
  %y = binade.batch_norm %x, %one, %one, %mean, %variance {axis = 1 : i64, epsilon = 1.0e-5 : f64, training}
      : (tensor<2x3xf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf16>
  %next_mean = binade.add %running_mean, %mean : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %next_variance = binade.add %variance, %running_variance : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %mean2, %variance2 = binade.batch_norm_statistics %y {axis = 1 : i64}
      : (tensor<2x3xf16>) -> (tensor<3xf32>, tensor<3xf32>)
  %z = binade.batch_norm %y, %one, %one, %mean2, %variance2 {axis = 1 : i64, epsilon = 1.0e-5 : f64, training}
      : (tensor<2x3xf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf16>
  %loss = binade.reduce_mean %z {axes = array<i64: 0, 1>} : (tensor<2x3xf16>) -> tensor<f32>
  return %loss, %next_variance, %next_mean : tensor<f32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// Without a loss there is nothing to evaluate.

// CHECK-LABEL: func.func @step
// CHECK-NOT:   @evaluate
func.func @step(
    %x: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<4xf32> {binade.role = #binade.role<output>, binade.name = "y"}) {
  %y = binade.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Attention drops no probabilities. Its other settings stay.

// CHECK-LABEL: func.func @step
// CHECK:         binade.attention {{.*}} rng(
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT:     rng
// CHECK:         %[[Y:.*]], %{{.*}} = binade.attention %{{.*}}, %{{.*}}, %{{.*}} mask(%{{.*}}) {scale = 5.000000e-01 : f64, softcap = 2.000000e+00 : f64}
// CHECK:         binade.reduce_mean %[[Y]]
func.func @step(
    %w: tensor<4x8xf32> {binade.role = #binade.role<parameter>, binade.name = "w",
                         binade.init = dense<1.0> : tensor<4x8xf32>},
    %rng: tensor<2xi64> {binade.role = #binade.role<rng>, binade.name = "rng"},
    %mask: tensor<1x4xi1> {binade.role = #binade.role<batch>, binade.name = "mask"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"},
        tensor<4x8xf32> {binade.role = #binade.role<parameter>, binade.name = "w"}) {
  %y, %lse = binade.attention %w, %w, %w mask(%mask) rng(%rng)
      {ratio = 0.5 : f64, scale = 0.5 : f64, softcap = 2.0 : f64, stream = 1 : i64}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<1x4xi1>, tensor<2xi64>)
        -> (tensor<4x8xf32>, tensor<4xf32>)
  %loss = binade.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %next = binade.sub %w, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %loss, %next : tensor<f32>, tensor<4x8xf32>
}

// -----

// The evaluation offset of a rule is added to the value of the parameter.

// CHECK-LABEL: func.func @evaluate
// CHECK-SAME:      (%[[P:[a-z0-9]*]]: tensor<4xbf16> {binade.name = "p", binade.role = #binade.role<parameter>}
// CHECK-SAME:       %[[E:[a-z0-9]*]]: tensor<4xf32> {binade.name = "evaluation_offset/p", binade.role = #binade.role<state>}
// CHECK-SAME:       %[[R:[a-z0-9]*]]: tensor<4xi16> {binade.name = "remainder/p", binade.role = #binade.role<state>})
// CHECK:         %[[WIDE:.*]] = binade.join_halves %[[P]], %[[R]] {rounded}
// CHECK:         %[[SUM:.*]] = binade.add %[[WIDE]], %[[E]]
// CHECK:         %[[WEIGHT:.*]] = binade.cast %[[SUM]] : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK:         %[[READ:.*]] = binade.cast %[[WEIGHT]] : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT:    binade.reduce_mean %[[READ]]
binade.optimizer @ahead {states = [#binade.setting<"evaluation_offset" = 0.0>], hypers = []}
func.func private @ahead.update(%p: f32, %g: f32, %e: f32) -> (f32, f32) {
  %q = arith.subf %p, %g : f32
  return %q, %g : f32, f32
}
func.func @step(
    %p: tensor<4xbf16> {binade.role = #binade.role<parameter>, binade.name = "p"},
    %e: tensor<4xf32> {binade.role = #binade.role<state>, binade.name = "evaluation_offset/p"},
    %r: tensor<4xi16> {binade.role = #binade.role<state>, binade.name = "remainder/p"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"},
        tensor<4xbf16> {binade.role = #binade.role<parameter>, binade.name = "p"},
        tensor<4xf32> {binade.role = #binade.role<state>, binade.name = "evaluation_offset/p"},
        tensor<4xi16> {binade.role = #binade.role<state>, binade.name = "remainder/p"}) {
  %x = binade.cast %p : (tensor<4xbf16>) -> tensor<4xf32>
  %loss = binade.reduce_mean %x {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %new:3 = binade.optimizer_update @ahead %p, %x states(%e, %r) {master = #binade.master<split_round>}
      : (tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xi16>)
        -> (tensor<4xbf16>, tensor<4xf32>, tensor<4xi16>)
  return %loss, %new#0, %new#1, %new#2 : tensor<f32>, tensor<4xbf16>, tensor<4xf32>, tensor<4xi16>
}
