// RMSprop (Tieleman & Hinton, 2012), one element, in the operation order of
// PyTorch's single-tensor form: epsilon is added after the square root, and
// nothing is bias-corrected. `rmsprop_centered` adds momentum and centering.
//
//   w = 1 - alpha
//   g' = g + weight_decay p
//   v' = alpha v + w g' g'
//   p' = p - lr g' / (sqrt(v') + eps)

binade.optimizer @rmsprop {
  states = [#binade.setting<"square_avg" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-2 min 0.0>,
            #binade.setting<"alpha" = 0.99 min 0.0 below 1.0>,
            #binade.setting<"eps" = 1.0e-8 min 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>]}

func.func private @rmsprop.scalars(%step: i64, %lr: f64, %alpha: f64, %eps: f64,
                                   %weight_decay: f64)
    -> (f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %w = arith.subf %one, %alpha : f64
  return %lr, %alpha, %w, %eps, %weight_decay : f64, f64, f64, f64, f64
}

func.func private @rmsprop.update(%p: f32, %g: f32, %v: f32, %lr: f32, %alpha: f32,
                                  %w: f32, %eps: f32, %weight_decay: f32)
    -> (f32, f32) {
  %decay = arith.mulf %weight_decay, %p : f32
  %g_decayed = arith.addf %g, %decay : f32
  %v_kept = arith.mulf %alpha, %v : f32
  %wg = arith.mulf %w, %g_decayed : f32
  %v_step = arith.mulf %wg, %g_decayed : f32
  %v_new = arith.addf %v_kept, %v_step : f32
  %root = math.sqrt %v_new : f32
  %denom = arith.addf %root, %eps : f32
  %scaled = arith.mulf %lr, %g_decayed : f32
  %update = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p, %update : f32
  return %p_new, %v_new : f32, f32
}
