// AdamW as a function of tensors: decay, both corrections and the rate are applied one
// after the other, and constant expressions are folded to f32 constants.

func.func private @adamw(%p: f32, %g: f32, %m: f32, %v: f32, %t: f32,
                         %lr: f64, %beta1: f64, %beta2: f64, %eps: f64,
                         %weight_decay: f64) -> (f32, f32, f32)
    attributes {hypers = ["lr", "beta1", "beta2", "eps", "weight_decay"]} {
  %one = arith.constant 1.0 : f64
  %lr_decay = arith.mulf %lr, %weight_decay : f64
  %kept = arith.subf %one, %lr_decay : f64
  %rest1 = arith.subf %one, %beta1 : f64
  %rest2 = arith.subf %one, %beta2 : f64
  %decay = arith.truncf %kept : f64 to f32
  %rate = arith.truncf %lr : f64 to f32
  %b1 = arith.truncf %beta1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %w1 = arith.truncf %rest1 : f64 to f32
  %w2 = arith.truncf %rest2 : f64 to f32
  %least = arith.truncf %eps : f64 to f32
  %unit = arith.constant 1.0 : f32

  %p_left = arith.mulf %p, %decay : f32
  %m_kept = arith.mulf %b1, %m : f32
  %m_step = arith.mulf %w1, %g : f32
  %m_new = arith.addf %m_kept, %m_step : f32
  %v_kept = arith.mulf %b2, %v : f32
  %square = arith.mulf %g, %g : f32
  %v_step = arith.mulf %w2, %square : f32
  %v_new = arith.addf %v_kept, %v_step : f32

  %power1 = math.powf %b1, %t : f32
  %power2 = math.powf %b2, %t : f32
  %c1 = arith.subf %unit, %power1 : f32
  %c2 = arith.subf %unit, %power2 : f32
  %m_hat = arith.divf %m_new, %c1 : f32
  %v_hat = arith.divf %v_new, %c2 : f32
  %root = math.sqrt %v_hat : f32
  %denom = arith.addf %root, %least : f32
  %scaled = arith.mulf %rate, %m_hat : f32
  %change = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p_left, %change : f32
  return %p_new, %m_new, %v_new : f32, f32, f32
}

// The same with a learning rate that is an input: expressions with it are not folded.

func.func private @adamw.given(%p: f32, %g: f32, %m: f32, %v: f32, %t: f32,
                         %lr: f64, %beta1: f64, %beta2: f64, %eps: f64,
                         %weight_decay: f64) -> (f32, f32, f32)
    attributes {hypers = ["lr", "beta1", "beta2", "eps", "weight_decay"]} {
  %one = arith.constant 1.0 : f64
  %rest1 = arith.subf %one, %beta1 : f64
  %rest2 = arith.subf %one, %beta2 : f64
  %rate = arith.truncf %lr : f64 to f32
  %share = arith.truncf %weight_decay : f64 to f32
  %b1 = arith.truncf %beta1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %w1 = arith.truncf %rest1 : f64 to f32
  %w2 = arith.truncf %rest2 : f64 to f32
  %least = arith.truncf %eps : f64 to f32
  %unit = arith.constant 1.0 : f32

  %lost = arith.mulf %rate, %share : f32
  %decay = arith.subf %unit, %lost : f32
  %p_left = arith.mulf %p, %decay : f32
  %m_kept = arith.mulf %b1, %m : f32
  %m_step = arith.mulf %w1, %g : f32
  %m_new = arith.addf %m_kept, %m_step : f32
  %v_kept = arith.mulf %b2, %v : f32
  %square = arith.mulf %g, %g : f32
  %v_step = arith.mulf %w2, %square : f32
  %v_new = arith.addf %v_kept, %v_step : f32

  %power1 = math.powf %b1, %t : f32
  %power2 = math.powf %b2, %t : f32
  %c1 = arith.subf %unit, %power1 : f32
  %c2 = arith.subf %unit, %power2 : f32
  %m_hat = arith.divf %m_new, %c1 : f32
  %v_hat = arith.divf %v_new, %c2 : f32
  %root = math.sqrt %v_hat : f32
  %denom = arith.addf %root, %least : f32
  %scaled = arith.mulf %rate, %m_hat : f32
  %change = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p_left, %change : f32
  return %p_new, %m_new, %v_new : f32, f32, f32
}
