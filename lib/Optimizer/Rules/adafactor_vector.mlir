// Adafactor (Shazeer & Stern, 2018) in PyTorch's semantics, for parameters with one axis:
// the state is the whole second moment.
//
//   w = t^beta2_decay     rho = min(lr, 1 / sqrt(t))
//   v' = v + w (g g - v)
//   u = g / max(sqrt(v'), eps1)
//   p' = (1 - lr weight_decay) p - rho max(eps2, rms(p)) / max(1, rms(u) / d) u

!vector = tensor<2xf32>
!number = tensor<f32>

binade.optimizer @adafactor_vector {
  states = [#binade.setting<"variance" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-2 min 0.0>,
            #binade.setting<"beta2_decay" = -0.8 max 0.0>,
            #binade.setting<"eps1" = 1.1920928955078125e-7 min 0.0>,
            #binade.setting<"eps2" = 1.0e-3 min 0.0>,
            #binade.setting<"d" = 1.0 min 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>]}

func.func private @adafactor_vector.scalars(%step: i64, %lr: f64, %beta2_decay: f64,
                                            %eps1: f64, %eps2: f64, %d: f64,
                                            %weight_decay: f64)
    -> (f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %t = arith.sitofp %step : i64 to f64
  %w = math.powf %t, %beta2_decay : f64
  %root_t = math.sqrt %t : f64
  %slow = arith.divf %one, %root_t : f64
  %rho = arith.minimumf %lr, %slow : f64
  %lr_decay = arith.mulf %lr, %weight_decay : f64
  %decay = arith.subf %one, %lr_decay : f64
  return %w, %rho, %eps1, %eps2, %d, %decay : f64, f64, f64, f64, f64, f64
}

// max(least, sqrt(mean x x))

func.func private @adafactor_vector.rms(%x: !vector, %least: !number) -> !number {
  %wide = binade.cast %x : (!vector) -> tensor<2xf64>
  %squares = binade.mul %wide, %wide : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
  %mean = binade.reduce_mean %squares {axes = array<i64: 0>} : (tensor<2xf64>) -> tensor<f64>
  %root = binade.sqrt %mean : (tensor<f64>) -> tensor<f64>
  %rms = binade.cast %root : (tensor<f64>) -> !number
  %at_least = binade.max %rms, %least : (!number, !number) -> !number
  return %at_least : !number
}

func.func private @adafactor_vector.prepare(%p: !vector, %g: !vector, %v: !vector,
                                            %w: !number, %rho: !number,
                                            %eps1: !number, %eps2: !number,
                                            %d: !number, %decay: !number)
    -> !number {
  %squares = binade.mul %g, %g : (!vector, !vector) -> !vector
  %ws = binade.broadcast %w {axes = array<i64>} : (!number) -> !vector
  %off = binade.sub %squares, %v : (!vector, !vector) -> !vector
  %v_step = binade.mul %ws, %off : (!vector, !vector) -> !vector
  %v_new = binade.add %v, %v_step : (!vector, !vector) -> !vector
  %root = binade.sqrt %v_new : (!vector) -> !vector
  %least = binade.broadcast %eps1 {axes = array<i64>} : (!number) -> !vector
  %safe = binade.max %root, %least : (!vector, !vector) -> !vector
  %u = binade.div %g, %safe : (!vector, !vector) -> !vector

  %one = binade.constant dense<1.0> : !number
  %zero = binade.constant dense<0.0> : !number
  %p_rms = func.call @adafactor_vector.rms(%p, %eps2) : (!vector, !number) -> !number
  %u_rms = func.call @adafactor_vector.rms(%u, %zero) : (!vector, !number) -> !number
  %long = binade.div %u_rms, %d : (!number, !number) -> !number
  %denom = binade.max %one, %long : (!number, !number) -> !number
  %alpha = binade.mul %p_rms, %rho : (!number, !number) -> !number
  %rate = binade.div %alpha, %denom : (!number, !number) -> !number
  return %rate : !number
}

func.func private @adafactor_vector.update(%p: f32, %g: f32, %v: f32, %w: f32,
                                           %rho: f32, %eps1: f32, %eps2: f32,
                                           %d: f32, %decay: f32, %rate: f32)
    -> (f32, f32) {
  %square = arith.mulf %g, %g : f32
  %off = arith.subf %square, %v : f32
  %v_step = arith.mulf %w, %off : f32
  %v_new = arith.addf %v, %v_step : f32
  %root = math.sqrt %v_new : f32
  %safe = arith.maximumf %root, %eps1 : f32
  %u = arith.divf %g, %safe : f32
  %change = arith.mulf %rate, %u : f32
  %decayed = arith.mulf %decay, %p : f32
  %p_new = arith.subf %decayed, %change : f32
  return %p_new, %v_new : f32, f32
}
