// ONNX's Adam as the importer decomposes its node, without and with decay. The bias is
// corrected if the count of past updates, one less than the step's number, is not 0.

func.func private @adam_onnx(%p: f32, %g: f32, %m: f32, %v: f32, %t: i64,
                         %lr: f64, %beta1: f64, %beta2: f64, %eps: f64) -> (f32, f32, f32)
    attributes {hypers = ["lr", "beta1", "beta2", "eps"],
                settings = {weight_decay = 0.0, norm_coefficient_post = 0.0}} {
  %one = arith.constant 1.0 : f64
  %rest1 = arith.subf %one, %beta1 : f64
  %rest2 = arith.subf %one, %beta2 : f64
  %rate = arith.truncf %lr : f64 to f32
  %b1 = arith.truncf %beta1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %w1 = arith.truncf %rest1 : f64 to f32
  %w2 = arith.truncf %rest2 : f64 to f32
  %least = arith.truncf %eps : f64 to f32
  %unit = arith.constant 1.0 : f32

  %first = arith.constant 1 : i64
  %none = arith.constant 0 : i64
  %past = arith.subi %t, %first : i64
  %is_later = arith.cmpi sgt, %past, %none : i64
  %past_number = arith.sitofp %past : i64 to f32
  %power2 = math.powf %b2, %past_number : f32
  %c2 = arith.subf %unit, %power2 : f32
  %root_c2 = math.sqrt %c2 : f32
  %rate_root = arith.mulf %rate, %root_c2 : f32
  %power1 = math.powf %b1, %past_number : f32
  %c1 = arith.subf %unit, %power1 : f32
  %corrected = arith.divf %rate_root, %c1 : f32
  %step_size = arith.select %is_later, %corrected, %rate : f32

  %m_kept = arith.mulf %m, %b1 : f32
  %m_step = arith.mulf %g, %w1 : f32
  %m_new = arith.addf %m_kept, %m_step : f32
  %v_kept = arith.mulf %v, %b2 : f32
  %square = arith.mulf %g, %g : f32
  %v_step = arith.mulf %square, %w2 : f32
  %v_new = arith.addf %v_kept, %v_step : f32
  %scaled = arith.mulf %step_size, %m_new : f32
  %root = math.sqrt %v_new : f32
  %denom = arith.addf %root, %least : f32
  %change = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p, %change : f32
  return %p_new, %m_new, %v_new : f32, f32, f32
}

func.func private @adam_onnx.decay(%p: f32, %g: f32, %m: f32, %v: f32, %t: i64,
                         %lr: f64, %beta1: f64, %beta2: f64, %eps: f64,
                         %weight_decay: f64) -> (f32, f32, f32)
    attributes {hypers = ["lr", "beta1", "beta2", "eps", "weight_decay"],
                settings = {norm_coefficient_post = 0.0}} {
  %one = arith.constant 1.0 : f64
  %rest1 = arith.subf %one, %beta1 : f64
  %rest2 = arith.subf %one, %beta2 : f64
  %rate = arith.truncf %lr : f64 to f32
  %b1 = arith.truncf %beta1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %w1 = arith.truncf %rest1 : f64 to f32
  %w2 = arith.truncf %rest2 : f64 to f32
  %least = arith.truncf %eps : f64 to f32
  %unit = arith.constant 1.0 : f32

  %share = arith.truncf %weight_decay : f64 to f32
  %decay = arith.mulf %p, %share : f32
  %g_decayed = arith.addf %decay, %g : f32

  %first = arith.constant 1 : i64
  %none = arith.constant 0 : i64
  %past = arith.subi %t, %first : i64
  %is_later = arith.cmpi sgt, %past, %none : i64
  %past_number = arith.sitofp %past : i64 to f32
  %power2 = math.powf %b2, %past_number : f32
  %c2 = arith.subf %unit, %power2 : f32
  %root_c2 = math.sqrt %c2 : f32
  %rate_root = arith.mulf %rate, %root_c2 : f32
  %power1 = math.powf %b1, %past_number : f32
  %c1 = arith.subf %unit, %power1 : f32
  %corrected = arith.divf %rate_root, %c1 : f32
  %step_size = arith.select %is_later, %corrected, %rate : f32

  %m_kept = arith.mulf %m, %b1 : f32
  %m_step = arith.mulf %g_decayed, %w1 : f32
  %m_new = arith.addf %m_kept, %m_step : f32
  %v_kept = arith.mulf %v, %b2 : f32
  %square = arith.mulf %g_decayed, %g_decayed : f32
  %v_step = arith.mulf %square, %w2 : f32
  %v_new = arith.addf %v_kept, %v_step : f32
  %scaled = arith.mulf %step_size, %m_new : f32
  %root = math.sqrt %v_new : f32
  %denom = arith.addf %root, %least : f32
  %change = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p, %change : f32
  return %p_new, %m_new, %v_new : f32, f32, f32
}
