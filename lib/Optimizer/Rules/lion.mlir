// Lion (Chen et al., 2023), one element, in the operation order of its authors'
// PyTorch code: decay first; the sign of 0 is 0, of NaN NaN.
//
//   decay = 1 - lr weight_decay      w1 = 1 - beta1        w2 = 1 - beta2
//   p' = decay p - lr sign(beta1 m + w1 g)
//   m' = beta2 m + w2 g

binade.optimizer @lion {
  states = [#binade.setting<"exp_avg" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-4 min 0.0>,
            #binade.setting<"beta1" = 0.9 min 0.0 max 1.0>,
            #binade.setting<"beta2" = 0.99 min 0.0 below 1.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>],
  variants = {cv = {beta1 = 0.9, beta2 = 0.99},
              nlp = {beta1 = 0.95, beta2 = 0.98}}}

func.func private @lion.scalars(%step: i64, %lr: f64, %beta1: f64, %beta2: f64,
                                %weight_decay: f64)
    -> (f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %lr_decay = arith.mulf %lr, %weight_decay : f64
  %decay = arith.subf %one, %lr_decay : f64
  %w1 = arith.subf %one, %beta1 : f64
  %w2 = arith.subf %one, %beta2 : f64
  return %lr, %decay, %beta1, %w1, %beta2, %w2 : f64, f64, f64, f64, f64, f64
}

func.func private @lion.update(%p: f32, %g: f32, %m: f32, %lr: f32, %decay: f32,
                               %beta1: f32, %w1: f32, %beta2: f32, %w2: f32)
    -> (f32, f32) {
  %zero = arith.constant 0.0 : f32
  %ahead_kept = arith.mulf %beta1, %m : f32
  %ahead_step = arith.mulf %w1, %g : f32
  %ahead = arith.addf %ahead_kept, %ahead_step : f32
  %step = math.copysign %lr, %ahead : f32
  %is_signed = arith.cmpf one, %ahead, %zero : f32
  %change = arith.select %is_signed, %step, %ahead : f32
  %decayed = arith.mulf %decay, %p : f32
  %p_new = arith.subf %decayed, %change : f32

  %m_kept = arith.mulf %beta2, %m : f32
  %m_step = arith.mulf %w2, %g : f32
  %m_new = arith.addf %m_kept, %m_step : f32
  return %p_new, %m_new : f32, f32
}
