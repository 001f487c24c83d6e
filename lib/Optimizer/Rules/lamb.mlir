// LAMB (You et al., 2020), as in Apex: Adam's step with decay inside, scaled to the norm
// of the parameter. The second moment is corrected under the root. If `always` is 0,
// steps of tensors without decay are not scaled.
//
//   m' = beta1 m + w1 g   v' = beta2 v + w2 g g   w1 = 1 - beta1   w2 = 1 - beta2
//   u = (m' / c1) / (sqrt(v' / c2) + eps) + weight_decay p    ci = 1 - betai^t
//   ratio = |p| / |u|, or 1 where either is 0 or neither decays nor `always`
//   p' = p - lr ratio u

!vector = tensor<2xf32>
!number = tensor<f32>

binade.optimizer @lamb {
  states = [#binade.setting<"exp_avg" = 0.0>,
            #binade.setting<"exp_avg_sq" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"beta1" = 0.9 min 0.0 below 1.0>,
            #binade.setting<"beta2" = 0.999 min 0.0 below 1.0>,
            #binade.setting<"eps" = 1.0e-6 min 0.0>,
            #binade.setting<"weight_decay" = 1.0e-2 min 0.0>,
            #binade.setting<"always" = 0.0 min 0.0 max 1.0>]}

func.func private @lamb.scalars(%step: i64, %lr: f64, %beta1: f64, %beta2: f64,
                                %eps: f64, %weight_decay: f64, %always: f64)
    -> (f64, f64, f64, f64, f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %t = arith.sitofp %step : i64 to f64
  %w1 = arith.subf %one, %beta1 : f64
  %w2 = arith.subf %one, %beta2 : f64
  %beta1_t = math.powf %beta1, %t : f64
  %beta2_t = math.powf %beta2, %t : f64
  %c1 = arith.subf %one, %beta1_t : f64
  %c2 = arith.subf %one, %beta2_t : f64
  %adapts = arith.addf %weight_decay, %always : f64
  return %lr, %beta1, %w1, %beta2, %w2, %c1, %c2, %eps, %weight_decay, %adapts
    : f64, f64, f64, f64, f64, f64, f64, f64, f64, f64
}

// |x|

func.func private @lamb.norm(%x: !vector) -> !number {
  %wide = binade.cast %x : (!vector) -> tensor<2xf64>
  %squares = binade.mul %wide, %wide : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
  %sum = binade.reduce_sum %squares {axes = array<i64: 0>} : (tensor<2xf64>) -> tensor<f64>
  %root = binade.sqrt %sum : (tensor<f64>) -> tensor<f64>
  %norm = binade.cast %root : (tensor<f64>) -> !number
  return %norm : !number
}

// lr ratio

func.func private @lamb.prepare(%p: !vector, %g: !vector, %m: !vector, %v: !vector,
                                %lr: !number, %beta1: !number, %w1: !number,
                                %beta2: !number, %w2: !number, %c1: !number,
                                %c2: !number, %eps: !number, %decay: !number,
                                %adapts: !number) -> !number {
  %beta1s = binade.broadcast %beta1 {axes = array<i64>} : (!number) -> !vector
  %w1s = binade.broadcast %w1 {axes = array<i64>} : (!number) -> !vector
  %beta2s = binade.broadcast %beta2 {axes = array<i64>} : (!number) -> !vector
  %w2s = binade.broadcast %w2 {axes = array<i64>} : (!number) -> !vector
  %c1s = binade.broadcast %c1 {axes = array<i64>} : (!number) -> !vector
  %c2s = binade.broadcast %c2 {axes = array<i64>} : (!number) -> !vector
  %epss = binade.broadcast %eps {axes = array<i64>} : (!number) -> !vector
  %decays = binade.broadcast %decay {axes = array<i64>} : (!number) -> !vector

  %m_kept = binade.mul %beta1s, %m : (!vector, !vector) -> !vector
  %m_step = binade.mul %w1s, %g : (!vector, !vector) -> !vector
  %m_new = binade.add %m_kept, %m_step : (!vector, !vector) -> !vector
  %v_kept = binade.mul %beta2s, %v : (!vector, !vector) -> !vector
  %wg = binade.mul %w2s, %g : (!vector, !vector) -> !vector
  %v_step = binade.mul %wg, %g : (!vector, !vector) -> !vector
  %v_new = binade.add %v_kept, %v_step : (!vector, !vector) -> !vector
  %m_hat = binade.div %m_new, %c1s : (!vector, !vector) -> !vector
  %v_hat = binade.div %v_new, %c2s : (!vector, !vector) -> !vector
  %root = binade.sqrt %v_hat : (!vector) -> !vector
  %denom = binade.add %root, %epss : (!vector, !vector) -> !vector
  %adam = binade.div %m_hat, %denom : (!vector, !vector) -> !vector
  %decayed = binade.mul %decays, %p : (!vector, !vector) -> !vector
  %u = binade.add %adam, %decayed : (!vector, !vector) -> !vector

  %zero = binade.constant dense<0.0> : !number
  %one = binade.constant dense<1.0> : !number
  %p_norm = func.call @lamb.norm(%p) : (!vector) -> !number
  %u_norm = func.call @lamb.norm(%u) : (!vector) -> !number
  %least = binade.min %p_norm, %u_norm : (!number, !number) -> !number
  %either = binade.min %least, %adapts : (!number, !number) -> !number
  %is_plain = binade.compare %either, %zero {comparison = #binade.comparison<equal>}
    : (!number, !number) -> tensor<i1>
  %quotient = binade.div %p_norm, %u_norm : (!number, !number) -> !number
  %ratio = binade.select %is_plain, %one, %quotient : (tensor<i1>, !number, !number) -> !number
  %rate = binade.mul %lr, %ratio : (!number, !number) -> !number
  return %rate : !number
}

func.func private @lamb.update(%p: f32, %g: f32, %m: f32, %v: f32, %lr: f32,
                               %beta1: f32, %w1: f32, %beta2: f32, %w2: f32,
                               %c1: f32, %c2: f32, %eps: f32, %decay: f32,
                               %adapts: f32, %rate: f32) -> (f32, f32, f32) {
  %m_kept = arith.mulf %beta1, %m : f32
  %m_step = arith.mulf %w1, %g : f32
  %m_new = arith.addf %m_kept, %m_step : f32
  %v_kept = arith.mulf %beta2, %v : f32
  %wg = arith.mulf %w2, %g : f32
  %v_step = arith.mulf %wg, %g : f32
  %v_new = arith.addf %v_kept, %v_step : f32

  %m_hat = arith.divf %m_new, %c1 : f32
  %v_hat = arith.divf %v_new, %c2 : f32
  %root = math.sqrt %v_hat : f32
  %denom = arith.addf %root, %eps : f32
  %adam = arith.divf %m_hat, %denom : f32
  %decayed = arith.mulf %decay, %p : f32
  %u = arith.addf %adam, %decayed : f32
  %change = arith.mulf %rate, %u : f32
  %p_new = arith.subf %p, %change : f32
  return %p_new, %m_new, %v_new : f32, f32, f32
}
