// Tiger (Su, 2023): updates are the sign of a running mean of the gradient, scaled by the
// root mean square of the parameter: of a whole matrix, of each row of an embedding.
// Parameters with one axis move by half of `lr` and do not decay. In runs with
// on-nonfinite=shrink, a gradient that is not finite leaves the mean unchanged and shrinks
// the parameter towards the initial value of its kind.
//
//   rate = lr max(rms(p), rms_floor)   decay = weight_decay    centre = 0
//        of a vector: lr / 2                   0                        1 of a scale
//   m' = beta m + (1 - beta) g
//   p' = p - rate (sign(m') + decay p)
//        or (p - centre) shrink + centre + noise (2 u - 1), u uniform in [0, 1)
//
// `form=dimension` uses 1 / sqrt(d) instead of rms(p), d the smaller of rows and columns,
// and does not read the parameter; `form=embedding` uses rows for all matrices.

!matrix = tensor<2x3xf32>
!rows = tensor<2xf32>
!columns = tensor<3xf32>
!vector = tensor<2xf32>
!number = tensor<f32>

binade.optimizer @tiger {
  states = [#binade.setting<"exp_avg" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"beta" = 0.965 min 0.0 below 1.0>,
            #binade.setting<"weight_decay" = 1.0e-2 min 0.0>,
            #binade.setting<"rms_floor" = 0.0 min 0.0>,
            #binade.setting<"shrink" = 0.99 min 0.0 max 1.0>,
            #binade.setting<"noise" = 0.0 min 0.0>],
  variants = {cv = {beta = 0.945}, nlp = {beta = 0.965}}}

func.func private @tiger.scalars(%step: i64, %lr: f64, %beta: f64,
                                 %weight_decay: f64, %rms_floor: f64,
                                 %shrink: f64, %noise: f64)
    -> (f64, f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %w = arith.subf %one, %beta : f64
  return %lr, %beta, %w, %weight_decay, %rms_floor, %shrink, %noise
    : f64, f64, f64, f64, f64, f64, f64
}

// Returns (rate, decay, centre, is_bad); the last is NaN if the gradient is not finite,
// else 0.

func.func private @tiger.prepare(%p: !vector, %g: !vector, %m: !vector,
                                 %lr: !number, %beta: !number, %w: !number,
                                 %decay: !number, %floor: !number,
                                 %shrink: !number, %noise: !number)
    -> (!number, !number, !number, !number) {
  %zero = binade.constant dense<0.0> : !number
  %wide = binade.cast %p : (!vector) -> tensor<2xf64>
  %squares = binade.mul %wide, %wide : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
  %mean = binade.reduce_mean %squares {axes = array<i64: 0>} : (tensor<2xf64>) -> tensor<f64>
  %root = binade.sqrt %mean : (tensor<f64>) -> tensor<f64>
  %rms = binade.cast %root : (tensor<f64>) -> !number
  %size = binade.max %rms, %floor : (!number, !number) -> !number
  %rate = binade.mul %lr, %size : (!number, !number) -> !number
  return %rate, %decay, %zero, %zero : !number, !number, !number, !number
}

func.func private @tiger.prepare.embedding(%p: !matrix, %g: !matrix, %m: !matrix,
                                           %lr: !number, %beta: !number,
                                           %w: !number, %decay: !number,
                                           %floor: !number, %shrink: !number,
                                           %noise: !number)
    -> (!matrix, !number, !number, !number) {
  %zero = binade.constant dense<0.0> : !number
  %squares = binade.mul %p, %p : (!matrix, !matrix) -> !matrix
  %mean = binade.reduce_mean %squares {axes = array<i64: 1>} : (!matrix) -> !rows
  %rms = binade.sqrt %mean : (!rows) -> !rows
  %floors = binade.broadcast %floor {axes = array<i64>} : (!number) -> !rows
  %size = binade.max %rms, %floors : (!rows, !rows) -> !rows
  %lrs = binade.broadcast %lr {axes = array<i64>} : (!number) -> !rows
  %rates = binade.mul %lrs, %size : (!rows, !rows) -> !rows
  %rate = binade.broadcast %rates {axes = array<i64: 0>} : (!rows) -> !matrix
  return %rate, %decay, %zero, %zero : !matrix, !number, !number, !number
}

func.func private @tiger.prepare.dimension(%p: !matrix, %g: !matrix, %m: !matrix,
                                           %lr: !number, %beta: !number,
                                           %w: !number, %decay: !number,
                                           %floor: !number, %shrink: !number,
                                           %noise: !number)
    -> (!number, !number, !number, !number) {
  %zero = binade.constant dense<0.0> : !number
  %each_row = binade.constant dense<1.0> : !rows
  %each_column = binade.constant dense<1.0> : !columns
  %rows = binade.reduce_sum %each_row {axes = array<i64: 0>} : (!rows) -> !number
  %columns = binade.reduce_sum %each_column {axes = array<i64: 0>} : (!columns) -> !number
  %d = binade.min %rows, %columns : (!number, !number) -> !number
  %root = binade.sqrt %d : (!number) -> !number
  %rate = binade.div %lr, %root : (!number, !number) -> !number
  return %rate, %decay, %zero, %zero : !number, !number, !number, !number
}

func.func private @tiger.prepare.shift(%p: !vector, %g: !vector, %m: !vector,
                                       %lr: !number, %beta: !number, %w: !number,
                                       %decay: !number, %floor: !number,
                                       %shrink: !number, %noise: !number)
    -> (!number, !number, !number, !number) {
  %zero = binade.constant dense<0.0> : !number
  %half = binade.constant dense<0.5> : !number
  %rate = binade.mul %lr, %half : (!number, !number) -> !number
  return %rate, %zero, %zero, %zero : !number, !number, !number, !number
}

func.func private @tiger.prepare.scale(%p: !vector, %g: !vector, %m: !vector,
                                       %lr: !number, %beta: !number, %w: !number,
                                       %decay: !number, %floor: !number,
                                       %shrink: !number, %noise: !number)
    -> (!number, !number, !number, !number) {
  %one = binade.constant dense<1.0> : !number
  %shift:4 = func.call @tiger.prepare.shift(%p, %g, %m, %lr, %beta, %w, %decay, %floor, %shrink, %noise)
    : (!vector, !vector, !vector, !number, !number, !number, !number, !number, !number, !number)
    -> (!number, !number, !number, !number)
  return %shift#0, %shift#1, %one, %shift#3 : !number, !number, !number, !number
}

// The same for runs in which gradients that are not finite are not skipped.

func.func private @tiger.is_bad(%g: !vector) -> !number {
  %nothing = binade.constant dense<0.0> : !vector
  %marks = binade.mul %g, %nothing : (!vector, !vector) -> !vector
  %bad = binade.reduce_sum %marks {axes = array<i64: 0>} : (!vector) -> !number
  return %bad : !number
}

func.func private @tiger.is_bad_matrix(%g: !matrix) -> !number {
  %nothing = binade.constant dense<0.0> : !matrix
  %marks = binade.mul %g, %nothing : (!matrix, !matrix) -> !matrix
  %bad = binade.reduce_sum %marks {axes = array<i64: 0, 1>} : (!matrix) -> !number
  return %bad : !number
}

func.func private @tiger.prepare.shrink(%p: !vector, %g: !vector, %m: !vector,
                                        %lr: !number, %beta: !number, %w: !number,
                                        %decay: !number, %floor: !number,
                                        %shrink: !number, %noise: !number)
    -> (!number, !number, !number, !number) {
  %rate:4 = func.call @tiger.prepare(%p, %g, %m, %lr, %beta, %w, %decay, %floor, %shrink, %noise)
    : (!vector, !vector, !vector, !number, !number, !number, !number, !number, !number, !number)
    -> (!number, !number, !number, !number)
  %bad = func.call @tiger.is_bad(%g) : (!vector) -> !number
  return %rate#0, %rate#1, %rate#2, %bad : !number, !number, !number, !number
}

func.func private @tiger.prepare.embedding.shrink(
    %p: !matrix, %g: !matrix, %m: !matrix, %lr: !number, %beta: !number, %w: !number,
    %decay: !number, %floor: !number, %shrink: !number, %noise: !number)
    -> (!matrix, !number, !number, !number) {
  %rate:4 = func.call @tiger.prepare.embedding(%p, %g, %m, %lr, %beta, %w, %decay, %floor, %shrink, %noise)
    : (!matrix, !matrix, !matrix, !number, !number, !number, !number, !number, !number, !number)
    -> (!matrix, !number, !number, !number)
  %bad = func.call @tiger.is_bad_matrix(%g) : (!matrix) -> !number
  return %rate#0, %rate#1, %rate#2, %bad : !matrix, !number, !number, !number
}

func.func private @tiger.prepare.dimension.shrink(
    %p: !matrix, %g: !matrix, %m: !matrix, %lr: !number, %beta: !number, %w: !number,
    %decay: !number, %floor: !number, %shrink: !number, %noise: !number)
    -> (!number, !number, !number, !number) {
  %rate:4 = func.call @tiger.prepare.dimension(%p, %g, %m, %lr, %beta, %w, %decay, %floor, %shrink, %noise)
    : (!matrix, !matrix, !matrix, !number, !number, !number, !number, !number, !number, !number)
    -> (!number, !number, !number, !number)
  %bad = func.call @tiger.is_bad_matrix(%g) : (!matrix) -> !number
  return %rate#0, %rate#1, %rate#2, %bad : !number, !number, !number, !number
}

func.func private @tiger.prepare.shift.shrink(
    %p: !vector, %g: !vector, %m: !vector, %lr: !number, %beta: !number, %w: !number,
    %decay: !number, %floor: !number, %shrink: !number, %noise: !number)
    -> (!number, !number, !number, !number) {
  %rate:4 = func.call @tiger.prepare.shift(%p, %g, %m, %lr, %beta, %w, %decay, %floor, %shrink, %noise)
    : (!vector, !vector, !vector, !number, !number, !number, !number, !number, !number, !number)
    -> (!number, !number, !number, !number)
  %bad = func.call @tiger.is_bad(%g) : (!vector) -> !number
  return %rate#0, %rate#1, %rate#2, %bad : !number, !number, !number, !number
}

func.func private @tiger.prepare.scale.shrink(
    %p: !vector, %g: !vector, %m: !vector, %lr: !number, %beta: !number, %w: !number,
    %decay: !number, %floor: !number, %shrink: !number, %noise: !number)
    -> (!number, !number, !number, !number) {
  %rate:4 = func.call @tiger.prepare.scale(%p, %g, %m, %lr, %beta, %w, %decay, %floor, %shrink, %noise)
    : (!vector, !vector, !vector, !number, !number, !number, !number, !number, !number, !number)
    -> (!number, !number, !number, !number)
  %bad = func.call @tiger.is_bad(%g) : (!vector) -> !number
  return %rate#0, %rate#1, %rate#2, %bad : !number, !number, !number, !number
}

func.func private @tiger.update(%p: f32, %g: f32, %m: f32, %lr: f32, %beta: f32,
                                %w: f32, %weight_decay: f32, %floor: f32,
                                %shrink: f32, %noise: f32, %rate: f32, %decay: f32,
                                %centre: f32, %bad: f32) -> (f32, f32) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %m_kept = arith.mulf %beta, %m : f32
  %m_step = arith.mulf %w, %g : f32
  %m_new = arith.addf %m_kept, %m_step : f32

  %sign = math.copysign %one, %m_new : f32
  %is_signed = arith.cmpf one, %m_new, %zero : f32
  %direction = arith.select %is_signed, %sign, %m_new : f32
  %decayed = arith.mulf %decay, %p : f32
  %both = arith.addf %direction, %decayed : f32
  %change = arith.mulf %both, %rate : f32
  %p_new = arith.subf %p, %change : f32
  return %p_new, %m_new : f32, f32
}

func.func private @tiger.update.shrink(
    %p: f32, %g: f32, %m: f32, %lr: f32, %beta: f32, %w: f32, %weight_decay: f32,
    %floor: f32, %shrink: f32, %noise: f32, %rate: f32, %decay: f32, %centre: f32,
    %bad: f32, %uniform: f32 {binade.role = #binade.role<rng>}) -> (f32, f32) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %is_bad = arith.cmpf une, %bad, %zero : f32

  %m_kept = arith.mulf %beta, %m : f32
  %m_step = arith.mulf %w, %g : f32
  %m_next = arith.addf %m_kept, %m_step : f32
  %m_new = arith.select %is_bad, %m, %m_next : f32

  %sign = math.copysign %one, %m_new : f32
  %is_signed = arith.cmpf one, %m_new, %zero : f32
  %direction = arith.select %is_signed, %sign, %m_new : f32
  %decayed = arith.mulf %decay, %p : f32
  %both = arith.addf %direction, %decayed : f32
  %change = arith.mulf %both, %rate : f32
  %p_next = arith.subf %p, %change : f32

  %off = arith.subf %p, %centre : f32
  %less = arith.mulf %off, %shrink : f32
  %back = arith.addf %less, %centre : f32
  %twice = arith.addf %uniform, %uniform : f32
  %side = arith.subf %twice, %one : f32
  %moved = arith.mulf %noise, %side : f32
  %p_less = arith.addf %back, %moved : f32
  %p_new = arith.select %is_bad, %p_less, %p_next : f32
  return %p_new, %m_new : f32, f32
}
