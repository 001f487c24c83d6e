// Gradient descent, without momentum and with.

func.func private @sgd(%p: f32, %g: f32, %t: f32, %lr: f64) -> f32
    attributes {hypers = ["lr"],
                settings = {momentum = 0.0, dampening = 0.0, weight_decay = 0.0,
                            nesterov = 0.0}} {
  %rate = arith.truncf %lr : f64 to f32
  %step = arith.mulf %rate, %g : f32
  %p_new = arith.subf %p, %step : f32
  return %p_new : f32
}

func.func private @sgd.momentum(%p: f32, %g: f32, %m: f32, %t: f32, %lr: f64,
                                %momentum: f64) -> (f32, f32)
    attributes {hypers = ["lr", "momentum"],
                settings = {dampening = 0.0, weight_decay = 0.0, nesterov = 0.0}} {
  %rate = arith.truncf %lr : f64 to f32
  %factor = arith.truncf %momentum : f64 to f32
  %m_kept = arith.mulf %factor, %m : f32
  %m_new = arith.addf %m_kept, %g : f32
  %step = arith.mulf %rate, %m_new : f32
  %p_new = arith.subf %p, %step : f32
  return %p_new, %m_new : f32, f32
}
