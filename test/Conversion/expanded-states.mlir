// RUN: binade-opt %s --binade-emit-kernels | FileCheck %s

// What depends only on a group of a state with range expansion is computed once
// per group, before the loop over the elements: the reciprocal of the power and
// the logarithm of the scale.

// CHECK-LABEL: @update.items
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             %[[INVERSE:.*]] = arith.divf %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK:             vector.store %[[INVERSE]], %[[MEMORY:[a-z0-9_]+]][
// The remaining groups, one by one.
// CHECK:           scf.for
// CHECK:             memref.store %{{.*}}, %[[MEMORY]][
// The loop over the elements, in which the first number is loaded per group.
// CHECK:           scf.for
// CHECK-NOT:         arith.divf
// CHECK:             memref.load %[[MEMORY]][
// CHECK-NOT:         arith.divf
// CHECK:             arith.addf
// CHECK:             vector.store
// CHECK:           }
binade.optimizer @momentum {
  states = [#binade.setting<"m" = 0.0>], hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>]}
func.func private @momentum.scalars(%t: i64, %lr: f64) -> f64 {
  return %lr : f64
}
func.func private @momentum.update(%p: f32, %g: f32, %m: f32, %lr: f32) -> (f32, f32) {
  %m1 = arith.addf %m, %g : f32
  %s = arith.mulf %lr, %m1 : f32
  %p1 = arith.subf %p, %s : f32
  return %p1, %m1 : f32, f32
}
func.func private @update(%p: tensor<16xf32>, %g: tensor<16xf32>,
    %codes: tensor<16xf8E4M3FN>, %scale: tensor<16xf32>, %power: tensor<16xf32>,
    %centre: tensor<16xf32>, %lr: tensor<f32>)
    -> (tensor<16xf32>, tensor<16xf8E4M3FN>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
    attributes {binade.kernel = #binade.schedule<multi_tensor>} {
  %p1, %m1:4 = binade.optimizer_update @momentum %p, %g states(%codes, %scale, %power, %centre)
    scalars(%lr) {formats = [#binade.quantized<f8E4M3FN, per_group<128>, scale = f32, expand>]}
    : (tensor<16xf32>, tensor<16xf32>, tensor<16xf8E4M3FN>, tensor<16xf32>, tensor<16xf32>,
       tensor<16xf32>, tensor<f32>)
    -> (tensor<16xf32>, tensor<16xf8E4M3FN>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  return %p1, %m1#0, %m1#1, %m1#2, %m1#3
    : tensor<16xf32>, tensor<16xf8E4M3FN>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}
