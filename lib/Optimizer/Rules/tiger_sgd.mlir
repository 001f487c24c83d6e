// A blend of Tiger and gradient descent with momentum (Su, 2023): `gamma` is 1 for the
// sign, 0 for the mean itself, to be changed by a schedule. The rest is as in `tiger`.
//
//   m' = beta m + (1 - beta) g
//   p' = p - rate (sign(m') |m'|^(1 - gamma) + decay p)

!matrix = tensor<2x3xf32>
!rows = tensor<2xf32>
!vector = tensor<2xf32>
!number = tensor<f32>

binade.optimizer @tiger_sgd {
  states = [#binade.setting<"exp_avg" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"beta" = 0.965 min 0.0 below 1.0>,
            #binade.setting<"weight_decay" = 1.0e-2 min 0.0>,
            #binade.setting<"gamma" = 1.0 min 0.0 max 1.0>],
  variants = {cv = {beta = 0.945}, nlp = {beta = 0.965}}}

func.func private @tiger_sgd.scalars(%step: i64, %lr: f64, %beta: f64,
                                     %weight_decay: f64, %gamma: f64)
    -> (f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %w = arith.subf %one, %beta : f64
  %exponent = arith.subf %one, %gamma : f64
  return %lr, %beta, %w, %weight_decay, %exponent : f64, f64, f64, f64, f64
}

// (rate, decay)

func.func private @tiger_sgd.prepare(%p: !vector, %g: !vector, %m: !vector,
                                     %lr: !number, %beta: !number, %w: !number,
                                     %decay: !number, %exponent: !number)
    -> (!number, !number) {
  %wide = binade.cast %p : (!vector) -> tensor<2xf64>
  %squares = binade.mul %wide, %wide : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
  %mean = binade.reduce_mean %squares {axes = array<i64: 0>} : (tensor<2xf64>) -> tensor<f64>
  %root = binade.sqrt %mean : (tensor<f64>) -> tensor<f64>
  %rms = binade.cast %root : (tensor<f64>) -> !number
  %rate = binade.mul %lr, %rms : (!number, !number) -> !number
  return %rate, %decay : !number, !number
}

func.func private @tiger_sgd.prepare.embedding(
    %p: !matrix, %g: !matrix, %m: !matrix, %lr: !number, %beta: !number, %w: !number,
    %decay: !number, %exponent: !number) -> (!matrix, !number) {
  %squares = binade.mul %p, %p : (!matrix, !matrix) -> !matrix
  %mean = binade.reduce_mean %squares {axes = array<i64: 1>} : (!matrix) -> !rows
  %rms = binade.sqrt %mean : (!rows) -> !rows
  %lrs = binade.broadcast %lr {axes = array<i64>} : (!number) -> !rows
  %rates = binade.mul %lrs, %rms : (!rows, !rows) -> !rows
  %rate = binade.broadcast %rates {axes = array<i64: 0>} : (!rows) -> !matrix
  return %rate, %decay : !matrix, !number
}

func.func private @tiger_sgd.prepare.vector(
    %p: !vector, %g: !vector, %m: !vector, %lr: !number, %beta: !number, %w: !number,
    %decay: !number, %exponent: !number) -> (!number, !number) {
  %zero = binade.constant dense<0.0> : !number
  %half = binade.constant dense<0.5> : !number
  %rate = binade.mul %lr, %half : (!number, !number) -> !number
  return %rate, %zero : !number, !number
}

func.func private @tiger_sgd.update(%p: f32, %g: f32, %m: f32, %lr: f32, %beta: f32,
                                    %w: f32, %weight_decay: f32, %exponent: f32,
                                    %rate: f32, %decay: f32) -> (f32, f32) {
  %zero = arith.constant 0.0 : f32
  %m_kept = arith.mulf %beta, %m : f32
  %m_step = arith.mulf %w, %g : f32
  %m_new = arith.addf %m_kept, %m_step : f32

  %size = math.absf %m_new : f32
  %length = math.powf %size, %exponent : f32
  %signed = math.copysign %length, %m_new : f32
  %is_signed = arith.cmpf one, %m_new, %zero : f32
  %direction = arith.select %is_signed, %signed, %m_new : f32
  %decayed = arith.mulf %decay, %p : f32
  %both = arith.addf %direction, %decayed : f32
  %change = arith.mulf %both, %rate : f32
  %p_new = arith.subf %p, %change : f32
  return %p_new, %m_new : f32, f32
}
