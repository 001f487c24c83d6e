// Adam (Kingma & Ba, 2015), one element, in the operation order of PyTorch's
// single-tensor form. Weight decay is part of the gradient; `adamw` decays the
// parameter itself.
//
//   w1 = 1 - beta1                   w2 = 1 - beta2
//   step_size = lr / (1 - beta1^t)   root_c2 = sqrt(1 - beta2^t)
//   g' = g + weight_decay p
//   m' = m + w1 (g' - m)             v' = beta2 v + w2 g' g'
//   p' = p - step_size m' / (sqrt(v') / root_c2 + eps)

binade.optimizer @adam {
  states = [#binade.setting<"exp_avg" = 0.0>,
            #binade.setting<"exp_avg_sq" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"beta1" = 0.9 min 0.0 below 1.0>,
            #binade.setting<"beta2" = 0.999 min 0.0 below 1.0>,
            #binade.setting<"eps" = 1.0e-8 min 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>]}

func.func private @adam.scalars(%step: i64, %lr: f64, %beta1: f64, %beta2: f64,
                                %eps: f64, %weight_decay: f64)
    -> (f64, f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %t = arith.sitofp %step : i64 to f64
  %w1 = arith.subf %one, %beta1 : f64
  %w2 = arith.subf %one, %beta2 : f64
  %beta1_t = math.powf %beta1, %t : f64
  %beta2_t = math.powf %beta2, %t : f64
  %c1 = arith.subf %one, %beta1_t : f64
  %c2 = arith.subf %one, %beta2_t : f64
  %step_size = arith.divf %lr, %c1 : f64
  %root_c2 = math.sqrt %c2 : f64
  return %weight_decay, %w1, %beta2, %w2, %step_size, %root_c2, %eps
    : f64, f64, f64, f64, f64, f64, f64
}

func.func private @adam.update(%p: f32, %g: f32, %m: f32, %v: f32,
                               %weight_decay: f32, %w1: f32, %beta2: f32, %w2: f32,
                               %step_size: f32, %root_c2: f32, %eps: f32)
    -> (f32, f32, f32) {
  %decay = arith.mulf %weight_decay, %p : f32
  %g_decayed = arith.addf %g, %decay : f32

  %dm = arith.subf %g_decayed, %m : f32
  %m_step = arith.mulf %w1, %dm : f32
  %m_new = arith.addf %m, %m_step : f32

  %v_kept = arith.mulf %beta2, %v : f32
  %wg = arith.mulf %w2, %g_decayed : f32
  %v_step = arith.mulf %wg, %g_decayed : f32
  %v_new = arith.addf %v_kept, %v_step : f32

  %root = math.sqrt %v_new : f32
  %v_hat_root = arith.divf %root, %root_c2 : f32
  %denom = arith.addf %v_hat_root, %eps : f32
  %scaled = arith.mulf %step_size, %m_new : f32
  %update = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p, %update : f32
  return %p_new, %m_new, %v_new : f32, f32, f32
}
