// RUN: binade-opt %s --binade-expand-composites | FileCheck %s

// `prepare` of a rule computes on whole tensors from what the update decodes: the
// unscaled gradient, all bits of the parameter, dequantized states. It also computes new
// values of states that the rule's update does not have; a skipped step keeps the old.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[LOW:.*]] = binade.reshape %arg5 {{.*}} -> tensor<4x8xi16>
// CHECK-DAG:     %[[P:.*]] = binade.join_halves %{{.*}}, %[[LOW]] {binade.phase = #binade.phase<optimizer>, rounded}
// CHECK-DAG:     %[[FACTOR:.*]] = binade.broadcast %arg7 {{.*}} -> tensor<4x8xf32>
// CHECK-DAG:     %[[G:.*]] = binade.mul %{{.*}}, %[[FACTOR]] {{.*}} -> tensor<4x8xf32>
// CHECK-DAG:     %[[CODES:.*]] = binade.reshape %arg2 {{.*}} -> tensor<4x8xf8E4M3FN>
// CHECK-DAG:     %[[M:.*]] = binade.dequantize %[[CODES]], %arg3 {{.*}} -> tensor<4x8xf32>
// CHECK-DAG:     %[[A:.*]] = binade.add %[[P]], %[[G]]
// CHECK-DAG:     %[[U:.*]] = binade.add %[[A]], %[[M]]
// CHECK-DAG:     %[[ROWS:.*]] = binade.reduce_sum %[[U]] {{.*}} : (tensor<4x8xf32>) -> tensor<4xf32>
// CHECK-DAG:     %[[NEW:.*]] = binade.add %arg4, %[[ROWS]]
// CHECK-DAG:     %[[VALUE:.*]] = binade.reshape %[[U]] {{.*}} -> tensor<4x2x4xf32>
// CHECK-DAG:     %[[KEPT:.*]] = binade.select %{{.*}}, %arg4, %[[NEW]]
// CHECK:         %[[P_NEW:.*]], %{{.*}} = binade.optimizer_update @rule %arg0, %arg1 states(%arg2, %arg3, %arg5) scalars(%arg6) values(%arg6, %[[VALUE]]) factors(%arg7) skip(%arg8) {binade.phase = #binade.phase<optimizer>, formats = [#binade.quantized<f8E4M3FN, per_group<16>, scale = f32>], master = #binade.master<split_round>}
// CHECK:         return %[[P_NEW]], %[[KEPT]]

binade.optimizer @rule {
  states = [#binade.setting<"m" = 0.0>, #binade.setting<"row" = 0.0>], hypers = []}
func.func private @rule.prepare(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %m: tensor<2x3xf32>,
                                %row: tensor<2xf32>, %lr: tensor<f32>)
    -> (tensor<2xf32>, tensor<f32>, tensor<2x3xf32>) {
  %a = binade.add %p, %g : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = binade.add %a, %m : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %rows = binade.reduce_sum %b {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %new = binade.add %row, %rows : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %new, %lr, %b : tensor<2xf32>, tensor<f32>, tensor<2x3xf32>
}
func.func private @rule.update(%p: f32, %g: f32, %m: f32, %lr: f32, %rate: f32, %u: f32) -> (f32, f32) {
  return %u, %m : f32, f32
}
func.func @step(%p: tensor<4x2x4xbf16>, %g: tensor<4x2x4xf32>, %m: tensor<4x2x4xf8E4M3FN>,
                %scales: tensor<2xf32>, %row: tensor<4xf32>, %low: tensor<4x2x4xi16>,
                %lr: tensor<f32>, %f: tensor<f32>, %skip: tensor<i1>) -> (tensor<4x2x4xbf16>, tensor<4xf32>) {
  %n:5 = binade.optimizer_update @rule %p, %g states(%m, %scales, %row, %low) scalars(%lr) factors(%f) skip(%skip) {
    binade.phase = #binade.phase<optimizer>, prepare = @rule.prepare, master = #binade.master<split_round>,
    formats = [#binade.quantized<f8E4M3FN, per_group<16>, scale = f32>, unit]}
    : (tensor<4x2x4xbf16>, tensor<4x2x4xf32>, tensor<4x2x4xf8E4M3FN>, tensor<2xf32>, tensor<4xf32>,
       tensor<4x2x4xi16>, tensor<f32>, tensor<f32>, tensor<i1>)
      -> (tensor<4x2x4xbf16>, tensor<4x2x4xf8E4M3FN>, tensor<2xf32>, tensor<4xf32>, tensor<4x2x4xi16>)
  return %n#0, %n#3 : tensor<4x2x4xbf16>, tensor<4xf32>
}
