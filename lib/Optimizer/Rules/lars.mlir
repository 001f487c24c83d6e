// LARS (You, Gitman & Ginsburg, 2017): momentum of steps that are scaled to `trust` times
// the norm of the parameter. Parameters with one axis use plain momentum without decay.
//
//   local = trust |p| / (|g| + weight_decay |p|), or 1 where either norm is 0
//   m' = momentum m + lr local (g + weight_decay p)
//   p' = p - m'

!vector = tensor<2xf32>
!number = tensor<f32>

binade.optimizer @lars {
  states = [#binade.setting<"momentum_buffer" = 0.0>],
  hypers = [#binade.setting<"lr" = 0.1 min 0.0>,
            #binade.setting<"momentum" = 0.9 min 0.0>,
            #binade.setting<"weight_decay" = 5.0e-4 min 0.0>,
            #binade.setting<"trust" = 1.0e-3 min 0.0>]}

func.func private @lars.scalars(%step: i64, %lr: f64, %momentum: f64,
                                %weight_decay: f64, %trust: f64)
    -> (f64, f64, f64, f64) {
  return %lr, %momentum, %weight_decay, %trust : f64, f64, f64, f64
}

// |x|

func.func private @lars.norm(%x: !vector) -> !number {
  %wide = binade.cast %x : (!vector) -> tensor<2xf64>
  %squares = binade.mul %wide, %wide : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
  %sum = binade.reduce_sum %squares {axes = array<i64: 0>} : (tensor<2xf64>) -> tensor<f64>
  %root = binade.sqrt %sum : (tensor<f64>) -> tensor<f64>
  %norm = binade.cast %root : (tensor<f64>) -> !number
  return %norm : !number
}

// (lr local, weight_decay)

func.func private @lars.prepare(%p: !vector, %g: !vector, %m: !vector, %lr: !number,
                                %momentum: !number, %weight_decay: !number,
                                %trust: !number) -> (!number, !number) {
  %zero = binade.constant dense<0.0> : !number
  %one = binade.constant dense<1.0> : !number
  %p_norm = func.call @lars.norm(%p) : (!vector) -> !number
  %g_norm = func.call @lars.norm(%g) : (!vector) -> !number
  %decayed = binade.mul %weight_decay, %p_norm : (!number, !number) -> !number
  %denom = binade.add %g_norm, %decayed : (!number, !number) -> !number
  %trusted = binade.mul %trust, %p_norm : (!number, !number) -> !number
  %quotient = binade.div %trusted, %denom : (!number, !number) -> !number
  %least = binade.min %p_norm, %g_norm : (!number, !number) -> !number
  %is_plain = binade.compare %least, %zero {comparison = #binade.comparison<equal>}
    : (!number, !number) -> tensor<i1>
  %local = binade.select %is_plain, %one, %quotient : (tensor<i1>, !number, !number) -> !number
  %rate = binade.mul %lr, %local : (!number, !number) -> !number
  return %rate, %weight_decay : !number, !number
}

func.func private @lars.prepare.vector(%p: !vector, %g: !vector, %m: !vector,
                                       %lr: !number, %momentum: !number,
                                       %weight_decay: !number, %trust: !number)
    -> (!number, !number) {
  %zero = binade.constant dense<0.0> : !number
  return %lr, %zero : !number, !number
}

func.func private @lars.update(%p: f32, %g: f32, %m: f32, %lr: f32, %momentum: f32,
                               %weight_decay: f32, %trust: f32, %rate: f32,
                               %decay: f32) -> (f32, f32) {
  %decayed = arith.mulf %decay, %p : f32
  %g_all = arith.addf %g, %decayed : f32
  %step = arith.mulf %rate, %g_all : f32
  %m_kept = arith.mulf %momentum, %m : f32
  %m_new = arith.addf %m_kept, %step : f32
  %p_new = arith.subf %p, %m_new : f32
  return %p_new, %m_new : f32, f32
}
