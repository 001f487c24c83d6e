// Adam-mini (Zhang et al., 2024): AdamW with one second moment per row of a matrix, for
// other parameters and with `form=tensor` one per tensor. With `heads` set, rows are heads:
// queries and keys need one second moment per head.
//
//   decay = 1 - lr weight_decay      w1 = 1 - beta1        w2 = 1 - beta2
//   c1 = 1 - beta1^t                 root_c2 = sqrt(1 - beta2^t)
//   m' = m + w1 (g - m)              v' = beta2 v + w2 mean of g g over the row
//   p' = decay p - lr m' / c1 / (sqrt(v') / root_c2 + eps)

!matrix = tensor<2x3xf32>
!rows = tensor<2xf32>
!vector = tensor<2xf32> // Of any length.
!number = tensor<f32>

binade.optimizer @adam_mini {
  states = [#binade.setting<"exp_avg" = 0.0>,
            #binade.setting<"exp_avg_sq_mean" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"beta1" = 0.9 min 0.0 below 1.0>,
            #binade.setting<"beta2" = 0.999 min 0.0 below 1.0>,
            #binade.setting<"eps" = 1.0e-8 min 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>]}

func.func private @adam_mini.scalars(%step: i64, %lr: f64, %beta1: f64, %beta2: f64,
                                     %eps: f64, %weight_decay: f64)
    -> (f64, f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %t = arith.sitofp %step : i64 to f64
  %lr_decay = arith.mulf %lr, %weight_decay : f64
  %decay = arith.subf %one, %lr_decay : f64
  %w1 = arith.subf %one, %beta1 : f64
  %w2 = arith.subf %one, %beta2 : f64
  %beta1_t = math.powf %beta1, %t : f64
  %beta2_t = math.powf %beta2, %t : f64
  %c1 = arith.subf %one, %beta1_t : f64
  %c2 = arith.subf %one, %beta2_t : f64
  %step_size = arith.divf %lr, %c1 : f64
  %root_c2 = math.sqrt %c2 : f64
  return %decay, %w1, %beta2, %w2, %step_size, %root_c2, %eps
    : f64, f64, f64, f64, f64, f64, f64
}

// (exp_avg_sq_mean, rate), where p' = decay p - rate m'

func.func private @adam_mini.prepare(
    %p: !matrix, %g: !matrix, %m: !matrix, %v: !rows, %decay: !number, %w1: !number,
    %beta2: !number, %w2: !number, %step_size: !number, %root_c2: !number, %eps: !number)
    -> (!rows, !matrix) {
  %squares = binade.mul %g, %g : (!matrix, !matrix) -> !matrix
  %mean = binade.reduce_mean %squares {axes = array<i64: 1>} : (!matrix) -> !rows
  %beta2s = binade.broadcast %beta2 {axes = array<i64>} : (!number) -> !rows
  %w2s = binade.broadcast %w2 {axes = array<i64>} : (!number) -> !rows
  %root_c2s = binade.broadcast %root_c2 {axes = array<i64>} : (!number) -> !rows
  %epss = binade.broadcast %eps {axes = array<i64>} : (!number) -> !rows
  %step_sizes = binade.broadcast %step_size {axes = array<i64>} : (!number) -> !rows
  %v_kept = binade.mul %beta2s, %v : (!rows, !rows) -> !rows
  %v_step = binade.mul %w2s, %mean : (!rows, !rows) -> !rows
  %v_new = binade.add %v_kept, %v_step : (!rows, !rows) -> !rows
  %root = binade.sqrt %v_new : (!rows) -> !rows
  %v_hat_root = binade.div %root, %root_c2s : (!rows, !rows) -> !rows
  %denom = binade.add %v_hat_root, %epss : (!rows, !rows) -> !rows
  %rate = binade.div %step_sizes, %denom : (!rows, !rows) -> !rows
  %rates = binade.broadcast %rate {axes = array<i64: 0>} : (!rows) -> !matrix
  return %v_new, %rates : !rows, !matrix
}

func.func private @adam_mini.prepare.tensor(
    %p: !vector, %g: !vector, %m: !vector, %v: !number, %decay: !number, %w1: !number,
    %beta2: !number, %w2: !number, %step_size: !number, %root_c2: !number, %eps: !number)
    -> (!number, !number) {
  %squares = binade.mul %g, %g : (!vector, !vector) -> !vector
  %mean = binade.reduce_mean %squares {axes = array<i64: 0>} : (!vector) -> !number
  %v_kept = binade.mul %beta2, %v : (!number, !number) -> !number
  %v_step = binade.mul %w2, %mean : (!number, !number) -> !number
  %v_new = binade.add %v_kept, %v_step : (!number, !number) -> !number
  %root = binade.sqrt %v_new : (!number) -> !number
  %v_hat_root = binade.div %root, %root_c2 : (!number, !number) -> !number
  %denom = binade.add %v_hat_root, %eps : (!number, !number) -> !number
  %rate = binade.div %step_size, %denom : (!number, !number) -> !number
  return %v_new, %rate : !number, !number
}

func.func private @adam_mini.prepare.vector(
    %p: !vector, %g: !vector, %m: !vector, %v: !number, %decay: !number, %w1: !number,
    %beta2: !number, %w2: !number, %step_size: !number, %root_c2: !number, %eps: !number)
    -> (!number, !number) {
  %both:2 = func.call @adam_mini.prepare.tensor(
      %p, %g, %m, %v, %decay, %w1, %beta2, %w2, %step_size, %root_c2, %eps)
    : (!vector, !vector, !vector, !number, !number, !number, !number, !number, !number,
       !number, !number) -> (!number, !number)
  return %both#0, %both#1 : !number, !number
}

func.func private @adam_mini.update(
    %p: f32, %g: f32, %m: f32, %decay: f32, %w1: f32, %beta2: f32, %w2: f32,
    %step_size: f32, %root_c2: f32, %eps: f32, %rate: f32) -> (f32, f32) {
  %dm = arith.subf %g, %m : f32
  %m_step = arith.mulf %w1, %dm : f32
  %m_new = arith.addf %m, %m_step : f32
  %change = arith.mulf %rate, %m_new : f32
  %decayed = arith.mulf %decay, %p : f32
  %p_new = arith.subf %decayed, %change : f32
  return %p_new, %m_new : f32, f32
}
