// AdEMAMix (Pagliardini, Ablin & Grangier, 2024), one element: a fast and a slow
// mean of the gradient. Weight decay comes first, as in `adamw`. With `t_alpha` and
// `t_beta3` above 0, the weight and the half-life of the slow mean grow over as many
// steps, the half-life linearly.
//
//   w1 = 1 - beta1                   w2 = 1 - beta2        w3 = 1 - beta3_t
//   c1 = 1 - beta1^t                 root_c2 = sqrt(1 - beta2^t)
//   alpha_t = alpha min(t / t_alpha, 1)
//   beta3_t = min(exp(l1 l3 / ((1 - s) l3 + s l1)), beta3)
//     where s = t / t_beta3, l1 = ln beta1, l3 = ln beta3
//   m' = m + w1 (g - m)    n' = n + w3 (g - n)    v' = beta2 v + w2 g g
//   p' = decay p - lr (m' / c1 + alpha_t n') / (sqrt(v') / root_c2 + eps)

binade.optimizer @ademamix {
  states = [#binade.setting<"exp_avg_fast" = 0.0>,
            #binade.setting<"exp_avg_slow" = 0.0>,
            #binade.setting<"exp_avg_sq" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"beta1" = 0.9 min 0.0 below 1.0>,
            #binade.setting<"beta2" = 0.999 min 0.0 below 1.0>,
            #binade.setting<"beta3" = 0.9999 min 0.0 below 1.0>,
            #binade.setting<"alpha" = 5.0 min 0.0>,
            #binade.setting<"eps" = 1.0e-8 min 0.0>,
            #binade.setting<"weight_decay" = 1.0e-2 min 0.0>,
            #binade.setting<"t_alpha" = 0.0 min 0.0>,
            #binade.setting<"t_beta3" = 0.0 min 0.0>]}

func.func private @ademamix.scalars(%step: i64, %lr: f64, %beta1: f64, %beta2: f64,
                                    %beta3: f64, %alpha: f64, %eps: f64,
                                    %weight_decay: f64, %t_alpha: f64, %t_beta3: f64)
    -> (f64, f64, f64, f64, f64, f64, f64, f64, f64, f64) {
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %t = arith.sitofp %step : i64 to f64
  %lr_decay = arith.mulf %lr, %weight_decay : f64
  %decay = arith.subf %one, %lr_decay : f64
  %w1 = arith.subf %one, %beta1 : f64
  %w2 = arith.subf %one, %beta2 : f64
  %beta1_t = math.powf %beta1, %t : f64
  %beta2_t = math.powf %beta2, %t : f64
  %c1 = arith.subf %one, %beta1_t : f64
  %c2 = arith.subf %one, %beta2_t : f64
  %root_c2 = math.sqrt %c2 : f64

  %share = arith.divf %t, %t_alpha : f64
  %is_grown = arith.cmpf oge, %t, %t_alpha : f64
  %part = arith.select %is_grown, %one, %share : f64
  %alpha_t = arith.mulf %alpha, %part : f64

  // exp(l1 l3 / ((1 - s) l3 + s l1)) as a power of beta1.
  %l1 = math.log %beta1 : f64
  %l3 = math.log %beta3 : f64
  %s = arith.divf %t, %t_beta3 : f64
  %rest = arith.subf %one, %s : f64
  %long = arith.mulf %rest, %l3 : f64
  %short = arith.mulf %s, %l1 : f64
  %both = arith.addf %long, %short : f64
  %power = arith.divf %l3, %both : f64
  %growing = math.powf %beta1, %power : f64
  %is_long = arith.cmpf oge, %t, %t_beta3 : f64
  %beta3_t = arith.select %is_long, %beta3, %growing : f64
  %w3 = arith.subf %one, %beta3_t : f64
  return %decay, %w1, %beta2, %w2, %w3, %c1, %alpha_t, %lr, %root_c2, %eps
    : f64, f64, f64, f64, f64, f64, f64, f64, f64, f64
}

func.func private @ademamix.update(%p: f32, %g: f32, %m: f32, %n: f32, %v: f32,
                                   %decay: f32, %w1: f32, %beta2: f32, %w2: f32,
                                   %w3: f32, %c1: f32, %alpha: f32, %lr: f32,
                                   %root_c2: f32, %eps: f32)
    -> (f32, f32, f32, f32) {
  %dm = arith.subf %g, %m : f32
  %m_step = arith.mulf %w1, %dm : f32
  %m_new = arith.addf %m, %m_step : f32
  %dn = arith.subf %g, %n : f32
  %n_step = arith.mulf %w3, %dn : f32
  %n_new = arith.addf %n, %n_step : f32

  %v_kept = arith.mulf %beta2, %v : f32
  %wg = arith.mulf %w2, %g : f32
  %v_step = arith.mulf %wg, %g : f32
  %v_new = arith.addf %v_kept, %v_step : f32

  %root = math.sqrt %v_new : f32
  %v_hat_root = arith.divf %root, %root_c2 : f32
  %denom = arith.addf %v_hat_root, %eps : f32
  %m_hat = arith.divf %m_new, %c1 : f32
  %n_share = arith.mulf %alpha, %n_new : f32
  %mixed = arith.addf %m_hat, %n_share : f32
  %scaled = arith.mulf %lr, %mixed : f32
  %update = arith.divf %scaled, %denom : f32
  %decayed = arith.mulf %decay, %p : f32
  %p_new = arith.subf %decayed, %update : f32
  return %p_new, %m_new, %n_new, %v_new : f32, f32, f32, f32
}
