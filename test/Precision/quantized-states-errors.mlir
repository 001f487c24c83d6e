// RUN: not binade-opt %s --binade-assign-precision=policy=bf16 --binade-materialize-precision 2>&1 | FileCheck %s

// Codes and scales replace an argument. A state that the step computes itself is not an
// argument.

// CHECK: error: loc("fc.weight"): 'binade.optimizer_update' op updates a state that is not an argument of '@step', so it cannot be quantized

binade.optimizer @sgd {states = [#binade.setting<"momentum_buffer" = 0.0>], hypers = []}
func.func private @sgd.update(%p: f32, %g: f32, %m: f32) -> (f32, f32) { return %g, %m : f32, f32 }
func.func @step(%w: tensor<64xf32> {binade.name = "fc.weight", binade.role = #binade.role<parameter>},
                %g: tensor<64xf32>)
    -> (tensor<64xf32> {binade.name = "fc.weight", binade.role = #binade.role<parameter>}) {
  %m = binade.neg %g : (tensor<64xf32>) -> tensor<64xf32>
  %p, %n = binade.optimizer_update @sgd %w, %g states(%m) {
    binade.phase = #binade.phase<optimizer>,
    storage = #binade.storage<states = #binade.quantized<f8E4M3FN, per_group<16>, scale = f32>>}
    : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) loc("fc.weight")
  return %p : tensor<64xf32>
}
