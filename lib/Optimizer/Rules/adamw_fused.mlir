// AdamW, one element, with the operations of PyTorch's fused kernel for the CPU
// (aten/src/ATen/native/cpu/FusedAdamKernel.cpp as it is compiled): those of `adamw`, of
// which both moments are fused multiply-adds, rounded once. For beta1 above 0.5; PyTorch
// interpolates from the gradient otherwise.
//
//   decay = 1 - lr weight_decay      w1 = 1 - beta1        w2 = 1 - beta2
//   step_size = lr / (1 - beta1^t)   root_c2 = sqrt(1 - beta2^t)
//   m' = fma(w1, g - m, m)           v' = fma(w2 g, g, beta2 v)
//   p' = decay p - step_size m' / (sqrt(v') / root_c2 + eps)

binade.optimizer @adamw_fused {
  states = [#binade.setting<"exp_avg" = 0.0>,
            #binade.setting<"exp_avg_sq" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"beta1" = 0.9 min 0.0 below 1.0>,
            #binade.setting<"beta2" = 0.999 min 0.0 below 1.0>,
            #binade.setting<"eps" = 1.0e-8 min 0.0>,
            #binade.setting<"weight_decay" = 1.0e-2 min 0.0>]}

func.func private @adamw_fused.scalars(%step: i64, %lr: f64, %beta1: f64, %beta2: f64,
                                       %eps: f64, %weight_decay: f64)
    -> (f64, f64, f64, f64, f64, f64, f64) {
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
  %step_size = arith.divf %lr, %c1 : f64
  %root_c2 = math.sqrt %c2 : f64
  return %decay, %w1, %beta2, %w2, %step_size, %root_c2, %eps
    : f64, f64, f64, f64, f64, f64, f64
}

func.func private @adamw_fused.update(%p: f32, %g: f32, %m: f32, %v: f32,
                                      %decay: f32, %w1: f32, %beta2: f32, %w2: f32,
                                      %step_size: f32, %root_c2: f32, %eps: f32)
    -> (f32, f32, f32) {
  %dm = arith.subf %g, %m : f32
  %m_new = math.fma %w1, %dm, %m : f32

  %v_kept = arith.mulf %beta2, %v : f32
  %wg = arith.mulf %w2, %g : f32
  %v_new = math.fma %wg, %g, %v_kept : f32

  %root = math.sqrt %v_new : f32
  %v_hat_root = arith.divf %root, %root_c2 : f32
  %denom = arith.addf %v_hat_root, %eps : f32
  %scaled = arith.mulf %step_size, %m_new : f32
  %update = arith.divf %scaled, %denom : f32
  %decayed = arith.mulf %decay, %p : f32
  %p_new = arith.subf %decayed, %update : f32
  return %p_new, %m_new, %v_new : f32, f32, f32
}
