// RMSprop with the variance in place of the second moment (Graves, 2013) and
// momentum, one element, in the operation order of PyTorch's single-tensor form.
//
//   w = 1 - alpha
//   g' = g + weight_decay p
//   v' = alpha v + w g' g'           a' = a + w (g' - a)
//   b' = momentum b + g' / (sqrt(v' - a' a') + eps)
//   p' = p - lr b'
//
// If rounding of the states makes the variance negative, it counts as 0.

binade.optimizer @rmsprop_centered {
  states = [#binade.setting<"square_avg" = 0.0 min 0.0>,
            #binade.setting<"grad_avg" = 0.0>,
            #binade.setting<"momentum_buffer" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-2 min 0.0>,
            #binade.setting<"alpha" = 0.99 min 0.0 below 1.0>,
            #binade.setting<"eps" = 1.0e-8 min 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>,
            #binade.setting<"momentum" = 0.9 min 0.0>]}

func.func private @rmsprop_centered.scalars(%step: i64, %lr: f64, %alpha: f64,
                                            %eps: f64, %weight_decay: f64,
                                            %momentum: f64)
    -> (f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %w = arith.subf %one, %alpha : f64
  return %lr, %alpha, %w, %eps, %weight_decay, %momentum
    : f64, f64, f64, f64, f64, f64
}

func.func private @rmsprop_centered.update(%p: f32, %g: f32, %v: f32, %a: f32,
                                           %b: f32, %lr: f32, %alpha: f32, %w: f32,
                                           %eps: f32, %weight_decay: f32,
                                           %momentum: f32)
    -> (f32, f32, f32, f32) {
  %decay = arith.mulf %weight_decay, %p : f32
  %g_decayed = arith.addf %g, %decay : f32
  %v_kept = arith.mulf %alpha, %v : f32
  %wg = arith.mulf %w, %g_decayed : f32
  %v_step = arith.mulf %wg, %g_decayed : f32
  %v_new = arith.addf %v_kept, %v_step : f32

  %da = arith.subf %g_decayed, %a : f32
  %a_step = arith.mulf %w, %da : f32
  %a_new = arith.addf %a, %a_step : f32

  %square = arith.mulf %a_new, %a_new : f32
  %difference = arith.subf %v_new, %square : f32
  %zero = arith.constant 0.0 : f32
  %variance = arith.maximumf %difference, %zero : f32
  %root = math.sqrt %variance : f32
  %denom = arith.addf %root, %eps : f32
  %b_kept = arith.mulf %momentum, %b : f32
  %direction = arith.divf %g_decayed, %denom : f32
  %b_new = arith.addf %b_kept, %direction : f32
  %update = arith.mulf %lr, %b_new : f32
  %p_new = arith.subf %p, %update : f32
  return %p_new, %v_new, %a_new, %b_new : f32, f32, f32, f32
}
