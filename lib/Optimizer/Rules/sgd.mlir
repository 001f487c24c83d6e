// Stochastic gradient descent with momentum and weight decay, in PyTorch's
// semantics: the momentum of the first step is the gradient itself, Nesterov momentum
// looks one step ahead, and weight decay is part of the gradient.
//
//   keep = 1 at the first step or without momentum, else 1 - dampening
//   g' = g + weight_decay p
//   m' = momentum m + keep g'
//   p' = p - lr (nesterov ? g' + momentum m' : m')

binade.optimizer @sgd {
  states = [#binade.setting<"momentum_buffer" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"momentum" = 0.0 min 0.0>,
            #binade.setting<"dampening" = 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>,
            #binade.setting<"nesterov" = 0.0 min 0.0 max 1.0>]}

func.func private @sgd.scalars(%step: i64, %lr: f64, %momentum: f64,
                               %dampening: f64, %weight_decay: f64,
                               %nesterov: f64)
    -> (f64, f64, f64, f64, f64, f64) {
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %first = arith.constant 1 : i64
  %is_first = arith.cmpi eq, %step, %first : i64
  %is_plain = arith.cmpf oeq, %momentum, %zero : f64
  %whole = arith.ori %is_first, %is_plain : i1
  %rest = arith.subf %one, %dampening : f64
  %keep = arith.select %whole, %one, %rest : f64

  // p' = p - lr (ahead g' + reach m'): ahead = 1, reach = momentum with Nesterov;
  // ahead = 0, reach = 1 without.
  %looks_ahead = arith.cmpf one, %nesterov, %zero : f64
  %ahead = arith.select %looks_ahead, %one, %zero : f64
  %reach = arith.select %looks_ahead, %momentum, %one : f64
  return %lr, %momentum, %keep, %weight_decay, %ahead, %reach
    : f64, f64, f64, f64, f64, f64
}

func.func private @sgd.update(%p: f32, %g: f32, %m: f32,
                              %lr: f32, %momentum: f32, %keep: f32,
                              %weight_decay: f32, %ahead: f32, %reach: f32)
    -> (f32, f32) {
  %decay = arith.mulf %weight_decay, %p : f32
  %g_decayed = arith.addf %g, %decay : f32
  %m_kept = arith.mulf %momentum, %m : f32
  %g_kept = arith.mulf %keep, %g_decayed : f32
  %m_new = arith.addf %m_kept, %g_kept : f32
  %g_ahead = arith.mulf %ahead, %g_decayed : f32
  %m_reach = arith.mulf %reach, %m_new : f32
  %direction = arith.addf %g_ahead, %m_reach : f32
  %update = arith.mulf %lr, %direction : f32
  %p_new = arith.subf %p, %update : f32
  return %p_new, %m_new : f32, f32
}
