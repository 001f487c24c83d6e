// RUN: binade-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{'binade.optimizer' op names "lr" twice}}
binade.optimizer @twice {states = [], hypers = [#binade.setting<"lr" = 0.1>, #binade.setting<"lr" = 0.2>]}

// -----

// expected-error@+1 {{'binade.optimizer' op has an illegal default: lr must be at least 0, got -0.1}}
binade.optimizer @negative {states = [], hypers = [#binade.setting<"lr" = -0.1 min 0.0>]}

// -----

// expected-error@+1 {{'binade.optimizer' op has an illegal default: beta must be below 1, got 1}}
binade.optimizer @one {states = [], hypers = [#binade.setting<"beta" = 1.0 min 0.0 below 1.0>]}

// -----

// expected-error@+1 {{'binade.optimizer' op has an illegal default: s must be at most 1, got 2}}
binade.optimizer @two {states = [#binade.setting<"s" = 2.0 max 1.0>], hypers = []}

// -----

func.func @no_rule(%t: tensor<i64>) {
  // expected-error@+1 {{'binade.optimizer_scalars' op names optimizer @absent, which is not in this module}}
  binade.optimizer_scalars @absent(%t) : (tensor<i64>) -> ()
  return
}

// -----

binade.optimizer @half {states = [], hypers = []}

func.func @no_formula(%t: tensor<i64>) {
  // expected-error@+1 {{'binade.optimizer_scalars' op needs function '@half.scalars', which is not in this module}}
  binade.optimizer_scalars @half(%t) : (tensor<i64>) -> ()
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @hypers_missing(%t: tensor<i64>) {
  // expected-error@+1 {{'binade.optimizer_scalars' op has 0 hyper-parameters, optimizer @rule has 1}}
  %s = binade.optimizer_scalars @rule(%t) : (tensor<i64>) -> (tensor<f32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @scalars_missing(%t: tensor<i64>, %lr: tensor<f64>) {
  // expected-error@+1 {{'binade.optimizer_scalars' op has 2 results, '@rule.scalars' has 1}}
  %s:2 = binade.optimizer_scalars @rule(%t, %lr) : (tensor<i64>, tensor<f64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @states_missing(%p: tensor<8xf32>, %k: tensor<f32>) {
  // expected-error@+1 {{'binade.optimizer_update' op has 0 states, optimizer @rule has 1}}
  %n = binade.optimizer_update @rule %p, %p scalars(%k) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @too_few_values(%p: tensor<8xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op passes 3 values to '@rule.update', which takes 4}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%p) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @state_shape(%p: tensor<8xf32>, %s: tensor<4xf32>, %k: tensor<f32>) {
  // expected-error@+1 {{'binade.optimizer_update' op expects gradient and states of the parameter's shape 'tensor<8xf32>'}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%s) scalars(%k) : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<4xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @parameter_changes_format(%p: tensor<8xf32>, %k: tensor<f32>) {
  // expected-error@+1 {{'binade.optimizer_update' op expects results of the types of parameter and states}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%p) scalars(%k) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @skip_per_element(%p: tensor<8xf32>, %k: tensor<f32>, %b: tensor<8xi1>) {
  // expected-error@+1 {{operand #4 must be 0D tensor of 1-bit signless integer values, but got 'tensor<8xi1>'}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%p) scalars(%k) skip(%b) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xi1>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @copy_missing(%p: tensor<8xbf16>, %g: tensor<8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op has 0 states, optimizer @rule has 1}}
  %n:2 = binade.optimizer_update @rule %p, %g states(%s) {master = #binade.master<f32>} : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @remainder_of_floats(%p: tensor<8xbf16>, %g: tensor<8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op expects 'i16' in the last state, which 'split_trunc' keeps, got 'f32'}}
  %n:3 = binade.optimizer_update @rule %p, %g states(%s, %s) {master = #binade.master<split_trunc>} : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @split_half(%p: tensor<8xf16>, %g: tensor<8xf32>, %s: tensor<8xf32>, %r: tensor<8xi16>) {
  // expected-error@+1 {{'binade.optimizer_update' op 'split_round' splits an f32 into a bf16 and 16 more bits; the parameter is f16}}
  %n:3 = binade.optimizer_update @rule %p, %g states(%s, %r) {master = #binade.master<split_round>} : (tensor<8xf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xi16>) -> (tensor<8xf16>, tensor<8xf32>, tensor<8xi16>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @code_of_half(%p: tensor<8xf16>, %g: tensor<8xf32>, %s: tensor<8xf32>, %r: tensor<8xi8>) {
  // expected-error@+1 {{'binade.optimizer_update' op 'split_8bit' splits an f32 into a bf16 and 8 more bits; the parameter is f16}}
  %n:3 = binade.optimizer_update @rule %p, %g states(%s, %r) {master = #binade.master<split_8bit>} : (tensor<8xf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xi8>) -> (tensor<8xf16>, tensor<8xf32>, tensor<8xi8>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @wide_code(%p: tensor<8xbf16>, %g: tensor<8xf32>, %s: tensor<8xf32>, %r: tensor<8xi16>) {
  // expected-error@+1 {{'binade.optimizer_update' op expects 'i8' in the last state, which 'split_8bit' keeps, got 'i16'}}
  %n:3 = binade.optimizer_update @rule %p, %g states(%s, %r) {master = #binade.master<split_8bit>} : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xi16>) -> (tensor<8xbf16>, tensor<8xf32>, tensor<8xi16>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @kahan_of_f32(%p: tensor<8xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op 'kahan' preserves what a 16-bit parameter loses; the parameter is f32}}
  %n:3 = binade.optimizer_update @rule %p, %p states(%p, %p) {master = #binade.master<kahan>} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @state_of_integers(%p: tensor<8xf32>, %s: tensor<8xi16>) {
  // expected-error@+1 {{'binade.optimizer_update' op expects states of floats, got 'tensor<8xi16>'}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%s) : (tensor<8xf32>, tensor<8xf32>, tensor<8xi16>) -> (tensor<8xf32>, tensor<8xi16>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @nothing_to_draw_from(%p: tensor<8xbf16>, %g: tensor<8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op has 0 random numbers, expected 2}}
  %new:2 = binade.optimizer_update @rule %p, %g states(%s) {master = #binade.master<stochastic>} : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @nothing_is_drawn(%p: tensor<8xbf16>, %g: tensor<8xf32>, %s: tensor<8xf32>, %n: tensor<i64>) {
  // expected-error@+1 {{'binade.optimizer_update' op has 2 random numbers, expected 0}}
  %new:2 = binade.optimizer_update @rule %p, %g states(%s) random(%n, %n) : (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<i64>, tensor<i64>) -> (tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----

func.func @nothing_is_rounded(%p: tensor<8xf32>, %g: tensor<8xf32>, %s: tensor<8xf32>, %n: tensor<i64>) {
  // expected-error@+1 {{rounds a state stochastically to bf16 or f16, not to 'f32'}}
  %new:2 = binade.optimizer_update @rule %p, %g states(%s) random(%n, %n) {formats = [#binade.stochastic<bf16>]} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i64>, tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @fourth(%p: tensor<8xf32>, %g: tensor<8xf32>, %s: tensor<8xf32>, %t: tensor<8xbf16>, %n: tensor<i64>) {
  // expected-error@+1 {{rounds state 3 stochastically, but only the first 3 states can be}}
  %new:5 = binade.optimizer_update @rule %p, %g states(%s, %s, %s, %t) random(%n, %n) {formats = [unit, unit, unit, #binade.stochastic<bf16>]} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<i64>, tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>)
  return
}

// -----

// expected-error@+1 {{states are rounded stochastically to bf16, f16 or a quantized format, not to f32}}
func.func @rounded_format() attributes {storage = #binade.storage<states = #binade.stochastic<f32>>} { return }

// -----

// expected-error@+1 {{parameters are kept in f32, bf16 or f16, not in f64}}
func.func @storage_format() attributes {storage = #binade.storage<parameter = f64>} { return }

// -----

binade.optimizer @rule {states = [#binade.setting<"row" = 0.0>], hypers = []}
func.func private @rule.prepare(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %row: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
  %n = binade.constant dense<1.0> : tensor<f32>
  return %row, %n : tensor<2xf32>, tensor<f32>
}
func.func private @rule.update(%p: f32, %g: f32, %n: f32) -> f32 { return %n : f32 }

func.func @state_of_another_shape(%p: tensor<4x8xf32>, %row: tensor<8xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op expects a state of type 'tensor<4xf32>', got 'tensor<8xf32>'}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%row) {prepare = @rule.prepare} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"row" = 0.0>], hypers = []}
func.func private @rule.prepare(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %row: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
  %n = binade.constant dense<1.0> : tensor<f32>
  return %row, %n : tensor<2xf32>, tensor<f32>
}
func.func private @rule.update(%p: f32, %g: f32, %n: f32) -> f32 { return %n : f32 }

func.func @no_such_form(%p: tensor<4x8xf32>, %row: tensor<4xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op needs function '@rule.prepare.wide', which is not in this module}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%row) {prepare = @rule.prepare.wide} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"row" = 0.0>], hypers = []}
func.func private @rule.prepare(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %row: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
  %n = binade.constant dense<1.0> : tensor<f32>
  return %row, %n : tensor<2xf32>, tensor<f32>
}
func.func private @rule.update(%p: f32, %g: f32, %n: f32) -> f32 { return %n : f32 }

func.func @values_of_another_shape(%p: tensor<4x8xf32>, %row: tensor<4xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op expects values only after 'prepare', as scalars or with the parameter's shape 'tensor<4x8xf32>', got 'tensor<4xf32>'}}
  %n = binade.optimizer_update @rule %p, %p values(%row) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"row" = 0.0>], hypers = []}
func.func private @rule.prepare(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %row: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
  %n = binade.constant dense<1.0> : tensor<f32>
  return %row, %n : tensor<2xf32>, tensor<f32>
}
func.func private @rule.update(%p: f32, %g: f32, %n: f32) -> f32 { return %n : f32 }

func.func @prepared_twice(%p: tensor<4x8xf32>, %row: tensor<4xf32>, %n: tensor<f32>) {
  // expected-error@+1 {{'binade.optimizer_update' op expects values only after 'prepare'}}
  %m:2 = binade.optimizer_update @rule %p, %p states(%row) values(%n) {prepare = @rule.prepare} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"row" = 0.0>], hypers = []}
func.func private @rule.prepare(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %row: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
  %n = binade.constant dense<1.0> : tensor<f32>
  return %row, %n : tensor<2xf32>, tensor<f32>
}
func.func private @rule.update(%p: f32, %g: f32, %n: f32) -> f32 { return %n : f32 }

func.func @one_state_too_many(%p: tensor<4x8xf32>, %row: tensor<4xf32>) {
  // expected-error@+1 {{'binade.optimizer_update' op has 2 states, optimizer @rule has 1}}
  %n:3 = binade.optimizer_update @rule %p, %p states(%row, %p) {prepare = @rule.prepare} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> f32 { return %p : f32 }

func.func @results_missing(%p: tensor<8xf32>, %k: tensor<f32>) {
  // expected-error@+1 {{'binade.optimizer_update' op calls '@rule.update', which returns 'f32', expected 'f32', 'f32'}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%p) scalars(%k) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: i64, %lr: f64) -> f64 { return %lr : f64 }
func.func private @rule.update(%p: f32, %g: f32, %s: f64, %lr: f32) -> (f32, f64) { return %p, %s : f32, f64 }

func.func @other_types(%p: tensor<8xf32>, %k: tensor<f32>) {
  // expected-error@+1 {{'binade.optimizer_update' op calls '@rule.update', which takes 'f32', 'f32', 'f64', 'f32', expected 'f32', 'f32', 'f32', 'f32'}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%p) scalars(%k) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.scalars(%step: i64) -> f64 {
  %0 = arith.constant 0.0 : f64
  return %0 : f64
}
func.func private @rule.prepare(%p: tensor<4xf32>, %g: tensor<4xf32>, %s: tensor<4xf32>, %lr: tensor<f32>) -> tensor<4xf32> { return %g : tensor<4xf32> }
func.func private @rule.update(%p: f32, %g: f32, %s: f32, %lr: f32) -> (f32, f32) { return %p, %s : f32, f32 }

func.func @value_missing(%p: tensor<8xf32>, %k: tensor<f32>) {
  // expected-error@+1 {{'binade.optimizer_update' op calls '@rule.update', which takes 'f32', 'f32', 'f32', 'f32', expected 'f32', 'f32', 'f32', 'f32', 'f32'}}
  %n:2 = binade.optimizer_update @rule %p, %p states(%p) scalars(%k) {prepare = @rule.prepare} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

binade.optimizer @rule {states = [], hypers = [#binade.setting<"lr" = 0.1>]}
func.func private @rule.scalars(%step: f64, %lr: f64) -> f64 { return %lr : f64 }

func.func @scalars_types(%k: tensor<i64>, %h: tensor<f64>) {
  // expected-error@+1 {{'binade.optimizer_scalars' op calls '@rule.scalars', which takes 'f64', 'f64', expected 'i64', 'f64'}}
  %s = binade.optimizer_scalars @rule(%k, %h) : (tensor<i64>, tensor<f64>) -> tensor<f32>
  return
}
