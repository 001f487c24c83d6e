// Adafactor (Shazeer & Stern, 2018) in PyTorch's semantics: the states of a matrix are
// only the row and column means of the second moment, updates are proportional to the
// parameter's root mean square, and clipped to a root mean square of `d`.
//
//   w = t^beta2_decay     rho = min(lr, 1 / sqrt(t))
//   r' = r + w (mean of g g over columns - r)     c' likewise over rows
//   u = g / max(sqrt(r' c' / max(mean r', eps1)), eps1)
//   p' = (1 - lr weight_decay) p - rho max(eps2, rms(p)) / max(1, rms(u) / d) u

!matrix = tensor<2x3xf32>
!rows = tensor<2xf32>
!columns = tensor<3xf32>
!number = tensor<f32>

binade.optimizer @adafactor {
  states = [#binade.setting<"row_var" = 0.0 min 0.0>,
            #binade.setting<"col_var" = 0.0 min 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-2 min 0.0>,
            #binade.setting<"beta2_decay" = -0.8 max 0.0>,
            #binade.setting<"eps1" = 1.1920928955078125e-7 min 0.0>,
            #binade.setting<"eps2" = 1.0e-3 min 0.0>,
            #binade.setting<"d" = 1.0 min 0.0>,
            #binade.setting<"weight_decay" = 0.0 min 0.0>],
  kinds = [#binade.parameter_kind<matrix>, #binade.parameter_kind<embedding>],
  others = "adafactor_vector"}

func.func private @adafactor.scalars(%step: i64, %lr: f64, %beta2_decay: f64,
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

func.func private @adafactor.rms(%x: !matrix, %least: !number) -> !number {
  %wide = binade.cast %x : (!matrix) -> tensor<2x3xf64>
  %squares = binade.mul %wide, %wide : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %mean = binade.reduce_mean %squares {axes = array<i64: 0, 1>} : (tensor<2x3xf64>) -> tensor<f64>
  %root = binade.sqrt %mean : (tensor<f64>) -> tensor<f64>
  %rms = binade.cast %root : (tensor<f64>) -> !number
  %at_least = binade.max %rms, %least : (!number, !number) -> !number
  return %at_least : !number
}

// (row_var, col_var, u, rate)

func.func private @adafactor.prepare(%p: !matrix, %g: !matrix, %row: !rows,
                                     %col: !columns, %w: !number, %rho: !number,
                                     %eps1: !number, %eps2: !number, %d: !number,
                                     %decay: !number)
    -> (!rows, !columns, !matrix, !number) {
  %squares = binade.mul %g, %g : (!matrix, !matrix) -> !matrix
  %row_mean = binade.reduce_mean %squares {axes = array<i64: 1>} : (!matrix) -> !rows
  %row_w = binade.broadcast %w {axes = array<i64>} : (!number) -> !rows
  %row_off = binade.sub %row_mean, %row : (!rows, !rows) -> !rows
  %row_step = binade.mul %row_w, %row_off : (!rows, !rows) -> !rows
  %row_new = binade.add %row, %row_step : (!rows, !rows) -> !rows
  %col_mean = binade.reduce_mean %squares {axes = array<i64: 0>} : (!matrix) -> !columns
  %col_w = binade.broadcast %w {axes = array<i64>} : (!number) -> !columns
  %col_off = binade.sub %col_mean, %col : (!columns, !columns) -> !columns
  %col_step = binade.mul %col_w, %col_off : (!columns, !columns) -> !columns
  %col_new = binade.add %col, %col_step : (!columns, !columns) -> !columns

  %mean = binade.reduce_mean %row_new {axes = array<i64: 0>} : (!rows) -> !number
  %mean_safe = binade.max %mean, %eps1 : (!number, !number) -> !number
  %rows = binade.broadcast %row_new {axes = array<i64: 0>} : (!rows) -> !matrix
  %columns = binade.broadcast %col_new {axes = array<i64: 1>} : (!columns) -> !matrix
  %means = binade.broadcast %mean_safe {axes = array<i64>} : (!number) -> !matrix
  %product = binade.mul %rows, %columns : (!matrix, !matrix) -> !matrix
  %estimate = binade.div %product, %means : (!matrix, !matrix) -> !matrix
  %eps_square = binade.mul %eps1, %eps1 : (!number, !number) -> !number
  %least = binade.broadcast %eps_square {axes = array<i64>} : (!number) -> !matrix
  %safe = binade.max %estimate, %least : (!matrix, !matrix) -> !matrix
  %root = binade.sqrt %safe : (!matrix) -> !matrix
  %u = binade.div %g, %root : (!matrix, !matrix) -> !matrix

  %one = binade.constant dense<1.0> : !number
  %zero = binade.constant dense<0.0> : !number
  %p_rms = func.call @adafactor.rms(%p, %eps2) : (!matrix, !number) -> !number
  %u_rms = func.call @adafactor.rms(%u, %zero) : (!matrix, !number) -> !number
  %long = binade.div %u_rms, %d : (!number, !number) -> !number
  %denom = binade.max %one, %long : (!number, !number) -> !number
  %alpha = binade.mul %p_rms, %rho : (!number, !number) -> !number
  %rate = binade.div %alpha, %denom : (!number, !number) -> !number
  return %row_new, %col_new, %u, %rate : !rows, !columns, !matrix, !number
}

func.func private @adafactor.update(%p: f32, %g: f32, %w: f32, %rho: f32, %eps1: f32,
                                    %eps2: f32, %d: f32, %decay: f32, %u: f32,
                                    %rate: f32) -> f32 {
  %change = arith.mulf %rate, %u : f32
  %decayed = arith.mulf %decay, %p : f32
  %p_new = arith.subf %decayed, %change : f32
  return %p_new : f32
}
