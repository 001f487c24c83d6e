// Signum, sign descent with momentum (Bernstein et al., 2018), one element; the
// sign of 0 is 0, of NaN NaN.
//
//   w = 1 - beta
//   m' = beta m + w g
//   p' = p - lr (sign(m') + weight_decay p)

binade.optimizer @signum {
  states = [#binade.setting<"exp_avg" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-4 min 0.0>,
            #binade.setting<"beta" = 0.9 min 0.0 below 1.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>]}

func.func private @signum.scalars(%step: i64, %lr: f64, %beta: f64,
                                  %weight_decay: f64) -> (f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %w = arith.subf %one, %beta : f64
  return %lr, %beta, %w, %weight_decay : f64, f64, f64, f64
}

func.func private @signum.update(%p: f32, %g: f32, %m: f32, %lr: f32, %beta: f32,
                                 %w: f32, %weight_decay: f32) -> (f32, f32) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %m_kept = arith.mulf %beta, %m : f32
  %m_step = arith.mulf %w, %g : f32
  %m_new = arith.addf %m_kept, %m_step : f32
  %unit = math.copysign %one, %m_new : f32
  %is_signed = arith.cmpf one, %m_new, %zero : f32
  %sign = arith.select %is_signed, %unit, %m_new : f32
  %decay = arith.mulf %weight_decay, %p : f32
  %direction = arith.addf %sign, %decay : f32
  %update = arith.mulf %lr, %direction : f32
  %p_new = arith.subf %p, %update : f32
  return %p_new, %m_new : f32, f32
}
