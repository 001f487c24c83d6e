// Muon (Jordan et al., 2024) in PyTorch's semantics: five steps of a Newton-Schulz
// iteration in bf16 bring all singular values of a matrix's momentum near 1. AdamW updates
// other parameters, with the same `lr` and `weight_decay`. If `match_rms` is 1, updates
// are as large as AdamW's (Liu et al., 2025), so that these settings suit both.
//
//   m' = m + (1 - momentum) (g - m)        u = nesterov ? g + momentum (m' - g) : m'
//   o = orthogonalized u                   R x C the shape of p
//   scale = match_rms ? 0.2 sqrt(max(R, C)) : sqrt(max(1, R / C))
//   p' = (1 - lr weight_decay) p - lr scale o

!matrix = tensor<2x3xf32>
!half = tensor<2x3xbf16>
!rows = tensor<2xf32>
!columns = tensor<3xf32>
!number = tensor<f32>

binade.optimizer @muon {
  states = [#binade.setting<"momentum_buffer" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>,
            #binade.setting<"momentum" = 0.95 min 0.0 below 1.0>,
            #binade.setting<"weight_decay" = 0.1 min 0.0>,
            #binade.setting<"nesterov" = 1.0 min 0.0 max 1.0>,
            #binade.setting<"ns_eps" = 1.0e-7 min 0.0>,
            #binade.setting<"match_rms" = 0.0 min 0.0 max 1.0>],
  kinds = [#binade.parameter_kind<matrix>],
  others = "adamw"}

func.func private @muon.scalars(%step: i64, %lr: f64, %momentum: f64,
                                %weight_decay: f64, %nesterov: f64, %ns_eps: f64,
                                %match_rms: f64)
    -> (f64, f64, f64, f64, f64, f64) {
  %one = arith.constant 1.0 : f64
  %w = arith.subf %one, %momentum : f64
  %lr_decay = arith.mulf %lr, %weight_decay : f64
  %decay = arith.subf %one, %lr_decay : f64
  // The weight of m' in u.
  %back = arith.subf %momentum, %one : f64
  %less = arith.mulf %nesterov, %back : f64
  %ahead = arith.addf %one, %less : f64
  return %lr, %w, %decay, %ahead, %ns_eps, %match_rms
    : f64, f64, f64, f64, f64, f64
}

// The start of the iteration: u / max(|u|, ns_eps).

func.func private @muon.start(%g: !matrix, %m: !matrix, %w: !number, %ahead: !number,
                              %eps: !number) -> !half {
  %ws = binade.broadcast %w {axes = array<i64>} : (!number) -> !matrix
  %dm = binade.sub %g, %m : (!matrix, !matrix) -> !matrix
  %m_step = binade.mul %ws, %dm : (!matrix, !matrix) -> !matrix
  %m_new = binade.add %m, %m_step : (!matrix, !matrix) -> !matrix
  %aheads = binade.broadcast %ahead {axes = array<i64>} : (!number) -> !matrix
  %back = binade.sub %m_new, %g : (!matrix, !matrix) -> !matrix
  %look = binade.mul %aheads, %back : (!matrix, !matrix) -> !matrix
  %u = binade.add %g, %look : (!matrix, !matrix) -> !matrix

  %wide = binade.cast %u : (!matrix) -> tensor<2x3xf64>
  %squares = binade.mul %wide, %wide : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %sum = binade.reduce_sum %squares {axes = array<i64: 0, 1>} : (tensor<2x3xf64>) -> tensor<f64>
  %root = binade.sqrt %sum : (tensor<f64>) -> tensor<f64>
  %norm = binade.cast %root : (tensor<f64>) -> !number
  %safe = binade.max %norm, %eps : (!number, !number) -> !number
  %norms = binade.broadcast %safe {axes = array<i64>} : (!number) -> !matrix
  %unit = binade.div %u, %norms : (!matrix, !matrix) -> !matrix
  %x = binade.cast %unit : (!matrix) -> !half
  return %x : !half
}

// lr scale

func.func private @muon.rate(%lr: !number, %match_rms: !number) -> !number {
  %zero = binade.constant dense<0.0> : !number
  %one = binade.constant dense<1.0> : !number
  %each_row = binade.constant dense<1.0> : !rows
  %each_column = binade.constant dense<1.0> : !columns
  %rows = binade.reduce_sum %each_row {axes = array<i64: 0>} : (!rows) -> !number
  %columns = binade.reduce_sum %each_column {axes = array<i64: 0>} : (!columns) -> !number
  %ratio = binade.div %rows, %columns : (!number, !number) -> !number
  %tall = binade.max %one, %ratio : (!number, !number) -> !number
  %original = binade.sqrt %tall : (!number) -> !number
  %longer = binade.max %rows, %columns : (!number, !number) -> !number
  %root = binade.sqrt %longer : (!number) -> !number
  %share = binade.constant dense<0.2> : !number
  %matched = binade.mul %share, %root : (!number, !number) -> !number
  %is_original = binade.compare %match_rms, %zero {comparison = #binade.comparison<equal>}
    : (!number, !number) -> tensor<i1>
  %scale = binade.select %is_original, %original, %matched
    : (tensor<i1>, !number, !number) -> !number
  %rate = binade.mul %lr, %scale : (!number, !number) -> !number
  return %rate : !number
}

// One step of x' = a x + (b x xT + c (x xT)^2) x, for at most as many rows as columns.

func.func private @muon.iterate(%x: !half) -> !half {
  %a = binade.constant dense<3.4445> : !matrix
  %b = binade.constant dense<-4.775> : tensor<2x2xf32>
  %c = binade.constant dense<2.0315> : tensor<2x2xf32>
  %gram = binade.matmul %x, %x {transpose_rhs} : (!half, !half) -> tensor<2x2xbf16>
  %square = binade.matmul %gram, %gram : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> tensor<2x2xf32>
  %gram_wide = binade.cast %gram : (tensor<2x2xbf16>) -> tensor<2x2xf32>
  %b_part = binade.mul %b, %gram_wide : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c_part = binade.mul %c, %square : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %update_wide = binade.add %b_part, %c_part : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %update = binade.cast %update_wide : (tensor<2x2xf32>) -> tensor<2x2xbf16>
  %moved = binade.matmul %update, %x : (tensor<2x2xbf16>, !half) -> !matrix
  %x_wide = binade.cast %x : (!half) -> !matrix
  %a_part = binade.mul %a, %x_wide : (!matrix, !matrix) -> !matrix
  %y_wide = binade.add %a_part, %moved : (!matrix, !matrix) -> !matrix
  %y = binade.cast %y_wide : (!matrix) -> !half
  return %y : !half
}

func.func private @muon.prepare(%p: !matrix, %g: !matrix, %m: !matrix,
                             %lr: !number, %w: !number, %decay: !number,
                             %ahead: !number, %eps: !number, %match_rms: !number)
    -> (!matrix, !number) {
  %x0 = func.call @muon.start(%g, %m, %w, %ahead, %eps)
    : (!matrix, !matrix, !number, !number, !number) -> !half
  %x1 = func.call @muon.iterate(%x0) : (!half) -> !half
  %x2 = func.call @muon.iterate(%x1) : (!half) -> !half
  %x3 = func.call @muon.iterate(%x2) : (!half) -> !half
  %x4 = func.call @muon.iterate(%x3) : (!half) -> !half
  %x5 = func.call @muon.iterate(%x4) : (!half) -> !half
  %o = binade.cast %x5 : (!half) -> !matrix
  %rate = func.call @muon.rate(%lr, %match_rms) : (!number, !number) -> !number
  return %o, %rate : !matrix, !number
}

// The same for a matrix with more rows than columns: x' = a x + x (b xT x + c (xT x)^2).

func.func private @muon.iterate_tall(%x: !half) -> !half {
  %a = binade.constant dense<3.4445> : !matrix
  %b = binade.constant dense<-4.775> : tensor<3x3xf32>
  %c = binade.constant dense<2.0315> : tensor<3x3xf32>
  %gram = binade.matmul %x, %x {transpose_lhs} : (!half, !half) -> tensor<3x3xbf16>
  %square = binade.matmul %gram, %gram : (tensor<3x3xbf16>, tensor<3x3xbf16>) -> tensor<3x3xf32>
  %gram_wide = binade.cast %gram : (tensor<3x3xbf16>) -> tensor<3x3xf32>
  %b_part = binade.mul %b, %gram_wide : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %c_part = binade.mul %c, %square : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %update_wide = binade.add %b_part, %c_part : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %update = binade.cast %update_wide : (tensor<3x3xf32>) -> tensor<3x3xbf16>
  %moved = binade.matmul %x, %update : (!half, tensor<3x3xbf16>) -> !matrix
  %x_wide = binade.cast %x : (!half) -> !matrix
  %a_part = binade.mul %a, %x_wide : (!matrix, !matrix) -> !matrix
  %y_wide = binade.add %a_part, %moved : (!matrix, !matrix) -> !matrix
  %y = binade.cast %y_wide : (!matrix) -> !half
  return %y : !half
}

func.func private @muon.prepare.tall(%p: !matrix, %g: !matrix, %m: !matrix,
                             %lr: !number, %w: !number, %decay: !number,
                             %ahead: !number, %eps: !number, %match_rms: !number)
    -> (!matrix, !number) {
  %x0 = func.call @muon.start(%g, %m, %w, %ahead, %eps)
    : (!matrix, !matrix, !number, !number, !number) -> !half
  %x1 = func.call @muon.iterate_tall(%x0) : (!half) -> !half
  %x2 = func.call @muon.iterate_tall(%x1) : (!half) -> !half
  %x3 = func.call @muon.iterate_tall(%x2) : (!half) -> !half
  %x4 = func.call @muon.iterate_tall(%x3) : (!half) -> !half
  %x5 = func.call @muon.iterate_tall(%x4) : (!half) -> !half
  %o = binade.cast %x5 : (!half) -> !matrix
  %rate = func.call @muon.rate(%lr, %match_rms) : (!number, !number) -> !number
  return %o, %rate : !matrix, !number
}

func.func private @muon.update(%p: f32, %g: f32, %m: f32, %lr: f32, %w: f32,
                               %decay: f32, %ahead: f32, %eps: f32, %match_rms: f32,
                               %o: f32, %rate: f32) -> (f32, f32) {
  %dm = arith.subf %g, %m : f32
  %m_step = arith.mulf %w, %dm : f32
  %m_new = arith.addf %m, %m_step : f32
  %change = arith.mulf %rate, %o : f32
  %decayed = arith.mulf %decay, %p : f32
  %p_new = arith.subf %decayed, %change : f32
  return %p_new, %m_new : f32, f32
}
