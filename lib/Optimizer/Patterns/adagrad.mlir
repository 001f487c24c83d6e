// ONNX's Adagrad as the importer decomposes its node.

func.func private @adagrad(%p: f32, %g: f32, %s: f32, %t: i64, %lr: f64,
                       %eps: f64) -> (f32, f32)
    attributes {hypers = ["lr", "eps"],
                settings = {lr_decay = 0.0, weight_decay = 0.0}} {
  %base = arith.truncf %lr : f64 to f32
  %least = arith.truncf %eps : f64 to f32
  %square = arith.mulf %g, %g : f32
  %s_new = arith.addf %s, %square : f32
  %scaled = arith.mulf %base, %g : f32
  %root = math.sqrt %s_new : f32
  %denom = arith.addf %root, %least : f32
  %change = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p, %change : f32
  return %p_new, %s_new : f32, f32
}

func.func private @adagrad.slower(%p: f32, %g: f32, %s: f32, %t: i64, %lr: f64,
                       %eps: f64, %lr_decay: f64) -> (f32, f32)
    attributes {hypers = ["lr", "eps", "lr_decay"],
                settings = {weight_decay = 0.0}} {
  %base = arith.truncf %lr : f64 to f32
  %least = arith.truncf %eps : f64 to f32
  %slowing = arith.truncf %lr_decay : f64 to f32
  %unit = arith.constant 1.0 : f32
  %first = arith.constant 1 : i64
  %past = arith.subi %t, %first : i64
  %past_number = arith.sitofp %past : i64 to f32
  %slower = arith.mulf %past_number, %slowing : f32
  %divisor = arith.addf %slower, %unit : f32
  %rate = arith.divf %base, %divisor : f32
  %square = arith.mulf %g, %g : f32
  %s_new = arith.addf %s, %square : f32
  %scaled = arith.mulf %rate, %g : f32
  %root = math.sqrt %s_new : f32
  %denom = arith.addf %root, %least : f32
  %change = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p, %change : f32
  return %p_new, %s_new : f32, f32
}

func.func private @adagrad.decay(%p: f32, %g: f32, %s: f32, %t: i64, %lr: f64,
                       %eps: f64, %weight_decay: f64) -> (f32, f32)
    attributes {hypers = ["lr", "eps", "weight_decay"],
                settings = {lr_decay = 0.0}} {
  %base = arith.truncf %lr : f64 to f32
  %least = arith.truncf %eps : f64 to f32
  %share = arith.truncf %weight_decay : f64 to f32
  %decay = arith.mulf %p, %share : f32
  %g_decayed = arith.addf %decay, %g : f32
  %square = arith.mulf %g_decayed, %g_decayed : f32
  %s_new = arith.addf %s, %square : f32
  %scaled = arith.mulf %base, %g_decayed : f32
  %root = math.sqrt %s_new : f32
  %denom = arith.addf %root, %least : f32
  %change = arith.divf %scaled, %denom : f32
  %p_new = arith.subf %p, %change : f32
  return %p_new, %s_new : f32, f32
}
