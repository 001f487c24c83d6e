// Schedule-free AdamW (Defazio et al., 2024): gradients are computed at y = (1 - beta1) z +
// beta1 x, AdamW without first moment updates z, and x, the average of all z, is evaluated
// and exported. Needs no schedule of the rate, except for `warmup_steps`, over which the
// rate grows linearly. Average weights are t^r times the largest rate so far to the power
// of `weight_lr_power`. The parameter is y, and its state is x - y:
//
//   lr_t = lr min(1, t / warmup_steps)       c2 = 1 - beta2^t
//   w' = t^r max over steps (lr_t^power)     s' = s + w'         c = w' / s'
//   v' = beta2 v + (1 - beta2) g g           u = g / (sqrt(v' / c2) + eps) + weight_decay y
//   y' = y + c (z - y) - lr_t (1 - beta1 (1 - c)) u   where z - y = -beta1 / (1 - beta1) e
//   e' = x' - y' = (1 - c) (e + lr_t (1 - beta1) u)

!vector = tensor<2xf32> // Of any length.
!number = tensor<f32>

binade.optimizer @schedule_free_adamw {
  states = [#binade.setting<"evaluation_offset" = 0.0>,
            #binade.setting<"exp_avg_sq" = 0.0 min 0.0>,
            #binade.setting<"weight_max" = 0.0 min 0.0>,
            #binade.setting<"weight_sum" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 2.5e-3 min 0.0>,
            #binade.setting<"beta1" = 0.9 min 0.0 below 1.0>,
            #binade.setting<"beta2" = 0.999 min 0.0 below 1.0>,
            #binade.setting<"eps" = 1.0e-8 min 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>,
            #binade.setting<"warmup_steps" = 0.0 min 0.0>,
            #binade.setting<"r" = 0.0 min 0.0>,
            #binade.setting<"weight_lr_power" = 2.0 min 0.0>]}

func.func private @schedule_free_adamw.scalars(
    %step: i64, %lr: f64, %beta1: f64, %beta2: f64, %eps: f64, %weight_decay: f64,
    %warmup_steps: f64, %r: f64, %weight_lr_power: f64)
    -> (f64, f64, f64, f64, f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %t = arith.sitofp %step : i64 to f64
  %share = arith.divf %t, %warmup_steps : f64
  %is_warm = arith.cmpf oge, %t, %warmup_steps : f64
  %part = arith.select %is_warm, %one, %share : f64
  %rate = arith.mulf %lr, %part : f64
  %w1 = arith.subf %one, %beta1 : f64
  %w2 = arith.subf %one, %beta2 : f64
  %beta2_t = math.powf %beta2, %t : f64
  %c2 = arith.subf %one, %beta2_t : f64
  %power = math.powf %rate, %weight_lr_power : f64
  %growth = math.powf %t, %r : f64
  return %rate, %beta1, %w1, %beta2, %w2, %c2, %eps, %weight_decay, %power, %growth
    : f64, f64, f64, f64, f64, f64, f64, f64, f64, f64
}

// (weight_max, weight_sum, to_z, step_size, kept, back), where
//   y' = y + to_z e - step_size u           e' = kept e + back u

func.func private @schedule_free_adamw.prepare(
    %p: !vector, %g: !vector, %e: !vector, %v: !vector, %most: !number, %sum: !number,
    %rate: !number, %beta1: !number, %w1: !number, %beta2: !number, %w2: !number,
    %c2: !number, %eps: !number, %weight_decay: !number, %power: !number,
    %growth: !number)
    -> (!number, !number, !number, !number, !number, !number) {
  %zero = binade.constant dense<0.0> : !number
  %one = binade.constant dense<1.0> : !number
  %most_new = binade.max %most, %power : (!number, !number) -> !number
  %weight = binade.mul %growth, %most_new : (!number, !number) -> !number
  %sum_new = binade.add %sum, %weight : (!number, !number) -> !number
  %quotient = binade.div %weight, %sum_new : (!number, !number) -> !number
  %is_zero = binade.compare %sum_new, %zero {comparison = #binade.comparison<equal>}
    : (!number, !number) -> tensor<i1>
  %c = binade.select %is_zero, %zero, %quotient
    : (tensor<i1>, !number, !number) -> !number
  %kept = binade.sub %one, %c : (!number, !number) -> !number

  %times = binade.div %beta1, %w1 : (!number, !number) -> !number
  %toward = binade.mul %c, %times : (!number, !number) -> !number
  %to_z = binade.neg %toward : (!number) -> !number
  %short = binade.mul %beta1, %kept : (!number, !number) -> !number
  %rest = binade.sub %one, %short : (!number, !number) -> !number
  %step_size = binade.mul %rate, %rest : (!number, !number) -> !number
  %ahead = binade.mul %rate, %w1 : (!number, !number) -> !number
  %back = binade.mul %kept, %ahead : (!number, !number) -> !number
  return %most_new, %sum_new, %to_z, %step_size, %kept, %back
    : !number, !number, !number, !number, !number, !number
}

func.func private @schedule_free_adamw.update(
    %p: f32, %g: f32, %e: f32, %v: f32, %rate: f32, %beta1: f32, %w1: f32, %beta2: f32,
    %w2: f32, %c2: f32, %eps: f32, %weight_decay: f32, %power: f32, %growth: f32,
    %to_z: f32, %step_size: f32, %kept: f32, %back: f32) -> (f32, f32, f32) {
  %v_kept = arith.mulf %beta2, %v : f32
  %wg = arith.mulf %w2, %g : f32
  %v_step = arith.mulf %wg, %g : f32
  %v_new = arith.addf %v_kept, %v_step : f32
  %v_hat = arith.divf %v_new, %c2 : f32
  %root = math.sqrt %v_hat : f32
  %denom = arith.addf %root, %eps : f32
  %normalized = arith.divf %g, %denom : f32
  %decay = arith.mulf %weight_decay, %p : f32
  %u = arith.addf %normalized, %decay : f32

  %nearer = arith.mulf %to_z, %e : f32
  %change = arith.mulf %step_size, %u : f32
  %p_near = arith.addf %p, %nearer : f32
  %p_new = arith.subf %p_near, %change : f32
  %e_kept = arith.mulf %kept, %e : f32
  %e_step = arith.mulf %back, %u : f32
  %e_new = arith.addf %e_kept, %e_step : f32
  return %p_new, %e_new, %v_new : f32, f32, f32
}
