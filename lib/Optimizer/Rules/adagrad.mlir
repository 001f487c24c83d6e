// Adagrad (Duchi, Hazan & Singer, 2011), one element, in the operation order of
// PyTorch's single-tensor form.
//
//   rate = lr / (1 + (t - 1) lr_decay)
//   g' = g + weight_decay p
//   s' = s + g' g'
//   p' = p - rate g' / (sqrt(s') + eps)

binade.optimizer @adagrad {
  states = [#binade.setting<"sum" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-2 min 0.0>,
            #binade.setting<"lr_decay" = 0.0 min 0.0>,
            #binade.setting<"eps" = 1.0e-10 min 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>]}

func.func private @adagrad.scalars(%step: i64, %lr: f64, %lr_decay: f64, %eps: f64,
                                   %weight_decay: f64) -> (f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %t = arith.sitofp %step : i64 to f64
  %before = arith.subf %t, %one : f64
  %slower = arith.mulf %before, %lr_decay : f64
  %divisor = arith.addf %one, %slower : f64
  %rate = arith.divf %lr, %divisor : f64
  return %rate, %eps, %weight_decay : f64, f64, f64
}

func.func private @adagrad.update(%p: f32, %g: f32, %s: f32, %rate: f32, %eps: f32,
                                  %weight_decay: f32) -> (f32, f32) {
  %decay = arith.mulf %weight_decay, %p : f32
  %g_decayed = arith.addf %g, %decay : f32
  %square = arith.mulf %g_decayed, %g_decayed : f32
  %s_new = arith.addf %s, %square : f32
  %root = math.sqrt %s_new : f32
  %denom = arith.addf %root, %eps : f32
  %scaled = arith.mulf %rate, %g_decayed : f32
  %update = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p, %update : f32
  return %p_new, %s_new : f32, f32
}
