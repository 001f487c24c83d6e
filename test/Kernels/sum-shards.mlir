// RUN: binade-opt %s --binade-sum-shards --split-input-file --verify-diagnostics | FileCheck %s

// A whole parameter is summed as its shards are: by rows, then over the rows. A mean divides
// by the number of elements of the whole.

// CHECK-LABEL: func.func @step(
// CHECK-SAME:      %[[W:.*]]: tensor<3x2x2xbf16>
// CHECK-NOT:     all_row_sums/w
// CHECK-SAME:    %[[OWN:.*]]: tensor<5xf64> {binade.name = "row_sums/v/0", binade.role = #binade.role<buffer>}
// CHECK-SAME:    %[[ALL:.*]]: tensor<9xf64> {binade.name = "all_row_sums/v/0", binade.role = #binade.role<buffer>}
// CHECK:         %[[ROWS:.*]] = binade.reduce_sum %{{.*}} {axes = array<i64: 1>, binade.phase = #binade.phase<optimizer>} : (tensor<3x4xf64>) -> tensor<3xf64>
// CHECK:         %[[TOTAL:.*]] = binade.reduce_sum %[[ROWS]] {axes = array<i64: 0>
// CHECK:         %[[COUNT:.*]] = binade.constant dense<1.200000e+01> : tensor<f64>
// CHECK:         binade.div %[[TOTAL]], %[[COUNT]]
// CHECK:         %[[V_WIDE:.*]] = binade.cast %{{.*}} : (tensor<5xf32>) -> tensor<5xf64>
// CHECK:         %[[V_TOTAL:.*]] = binade.reduce_sum %[[ALL]] {axes = array<i64: 0>
// CHECK:         %[[V_COUNT:.*]] = binade.constant dense<9.000000e+00> : tensor<f64>
// CHECK:         binade.div %[[V_TOTAL]], %[[V_COUNT]]
// CHECK:         return %{{.*}}, %{{.*}}, %[[V_WIDE]]

binade.optimizer @rule {states = [], hypers = []}
func.func private @rule.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>, %lr: tensor<f32>) -> tensor<f32> {
  %wide = binade.cast %p : (tensor<2xf32>) -> tensor<2xf64>
  %mean = binade.reduce_mean %wide {axes = array<i64: 0>} : (tensor<2xf64>) -> tensor<f64>
  %value = binade.cast %mean : (tensor<f64>) -> tensor<f32>
  return %value : tensor<f32>
}
func.func private @rule.update(%p: f32, %g: f32, %lr: f32, %mean: f32) -> f32 {
  return %mean : f32
}
func.func @step(%w: tensor<3x2x2xbf16> {binade.role = #binade.role<parameter>, binade.name = "w", binade.row_groups},
                %v: tensor<5xf32> {binade.role = #binade.role<parameter>, binade.name = "v", binade.shard = array<i64: 4, 9>},
                %a: tensor<3x2x2xf32> {binade.role = #binade.role<batch>, binade.name = "a"},
                %b: tensor<5xf32> {binade.role = #binade.role<batch>, binade.name = "b"},
                %lr: tensor<f32> {binade.role = #binade.role<batch>, binade.name = "lr"})
    -> (tensor<3x2x2xbf16> {binade.role = #binade.role<parameter>, binade.name = "w"},
        tensor<5xf32> {binade.role = #binade.role<parameter>, binade.name = "v"}) {
  %w_new = binade.optimizer_update @rule %w, %a scalars(%lr) {prepare = @rule.prepare, binade.phase = #binade.phase<optimizer>}
    : (tensor<3x2x2xbf16>, tensor<3x2x2xf32>, tensor<f32>) -> tensor<3x2x2xbf16>
  %v_new = binade.optimizer_update @rule %v, %b scalars(%lr) {prepare = @rule.prepare, binade.phase = #binade.phase<optimizer>}
    : (tensor<5xf32>, tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  return %w_new, %v_new : tensor<3x2x2xbf16>, tensor<5xf32>
}

// -----

// What a shard does not allow: other reductions over rows, products, and a sum that needs
// another one first.

binade.optimizer @largest {states = [], hypers = []}
func.func private @largest.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>) -> tensor<f32> {
  %value = binade.reduce_max %p {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %value : tensor<f32>
}
func.func private @largest.update(%p: f32, %g: f32, %value: f32) -> f32 {
  return %value : f32
}
func.func @step(%w: tensor<2x2xf32> {binade.role = #binade.role<parameter>, binade.name = "w", binade.shard = array<i64: 0, 3>},
                %g: tensor<2x2xf32> {binade.role = #binade.role<batch>, binade.name = "g"})
    -> (tensor<2x2xf32> {binade.role = #binade.role<parameter>, binade.name = "w"}) {
  // expected-error@below {{parameter 'w' is sharded, and the update rule needs the whole: 'largest' combines its rows in another way than by a sum}}
  %new = binade.optimizer_update @largest %w, %g {prepare = @largest.prepare}
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %new : tensor<2x2xf32>
}

// -----

binade.optimizer @twice {states = [], hypers = []}
func.func private @twice.prepare(%p: tensor<2xf32>, %g: tensor<2xf32>) -> tensor<f32> {
  %sum = binade.reduce_sum %p {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %sums = binade.broadcast %sum {axes = array<i64>} : (tensor<f32>) -> tensor<2xf32>
  %off = binade.sub %p, %sums : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %value = binade.reduce_sum %off {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %value : tensor<f32>
}
func.func private @twice.update(%p: f32, %g: f32, %value: f32) -> f32 {
  return %value : f32
}
func.func @step(%w: tensor<2x2xf32> {binade.role = #binade.role<parameter>, binade.name = "w", binade.shard = array<i64: 0, 3>},
                %g: tensor<2x2xf32> {binade.role = #binade.role<batch>, binade.name = "g"})
    -> (tensor<2x2xf32> {binade.role = #binade.role<parameter>, binade.name = "w"}) {
  // expected-error@below {{'twice' computes sums that depend on each other}}
  %new = binade.optimizer_update @twice %w, %g {prepare = @twice.prepare}
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %new : tensor<2x2xf32>
}
