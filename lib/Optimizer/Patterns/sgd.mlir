// Gradient descent: without and with momentum, with Nesterov momentum, and with decay.

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

func.func private @sgd.decay(%p: f32, %g: f32, %m: f32, %t: f32, %lr: f64,
                                %momentum: f64, %weight_decay: f64) -> (f32, f32)
    attributes {hypers = ["lr", "momentum", "weight_decay"],
                settings = {dampening = 0.0, nesterov = 0.0}} {
  %rate = arith.truncf %lr : f64 to f32
  %factor = arith.truncf %momentum : f64 to f32
  %share = arith.truncf %weight_decay : f64 to f32
  %decay = arith.mulf %p, %share : f32
  %g_decayed = arith.addf %decay, %g : f32
  %m_kept = arith.mulf %factor, %m : f32
  %m_new = arith.addf %m_kept, %g_decayed : f32
  %step = arith.mulf %rate, %m_new : f32
  %p_new = arith.subf %p, %step : f32
  return %p_new, %m_new : f32, f32
}

func.func private @sgd.nesterov(%p: f32, %g: f32, %m: f32, %t: f32, %lr: f64,
                                %momentum: f64) -> (f32, f32)
    attributes {hypers = ["lr", "momentum"],
                settings = {dampening = 0.0, weight_decay = 0.0, nesterov = 1.0}} {
  %rate = arith.truncf %lr : f64 to f32
  %factor = arith.truncf %momentum : f64 to f32
  %m_kept = arith.mulf %factor, %m : f32
  %m_new = arith.addf %m_kept, %g : f32
  %kept_on = arith.mulf %factor, %m_new : f32
  %ahead = arith.addf %g, %kept_on : f32
  %step = arith.mulf %rate, %ahead : f32
  %p_new = arith.subf %p, %step : f32
  return %p_new, %m_new : f32, f32
}

func.func private @sgd.nesterov_decay(%p: f32, %g: f32, %m: f32, %t: f32, %lr: f64,
                                %momentum: f64, %weight_decay: f64) -> (f32, f32)
    attributes {hypers = ["lr", "momentum", "weight_decay"],
                settings = {dampening = 0.0, nesterov = 1.0}} {
  %rate = arith.truncf %lr : f64 to f32
  %factor = arith.truncf %momentum : f64 to f32
  %share = arith.truncf %weight_decay : f64 to f32
  %decay = arith.mulf %p, %share : f32
  %g_decayed = arith.addf %decay, %g : f32
  %m_kept = arith.mulf %factor, %m : f32
  %m_new = arith.addf %m_kept, %g_decayed : f32
  %kept_on = arith.mulf %factor, %m_new : f32
  %ahead = arith.addf %g_decayed, %kept_on : f32
  %step = arith.mulf %rate, %ahead : f32
  %p_new = arith.subf %p, %step : f32
  return %p_new, %m_new : f32, f32
}
