// RUN: binade-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{expects 'binade.phase' to be a #binade.phase, got "forward"}}
func.func @phase() attributes {binade.phase = "forward"} {
  return
}

// -----

// expected-error@+1 {{has an unknown attribute 'binade.colour'}}
func.func @unknown() attributes {binade.colour = 1 : i64} {
  return
}

// -----

// expected-error@+1 {{expects 'binade.role' to be a #binade.role, got "parameter"}}
func.func @role(%x: tensor<2xf32> {binade.role = "parameter"}) {
  return
}

// -----

// expected-error@+1 {{expects 'binade.shard' to be the first row and the rows of the whole parameter, array<i64: first, rows>, for an argument of type 'tensor<2x4xf32>', got array<i64: 5, 6>}}
func.func @beyond(%x: tensor<2x4xf32> {binade.shard = array<i64: 5, 6>}) {
  return
}

// -----

// expected-error@+1 {{for an argument of type 'tensor<f32>', got array<i64: 0, 1>}}
func.func @scalar(%x: tensor<f32> {binade.shard = array<i64: 0, 1>}) {
  return
}

// -----

// expected-error@+1 {{expects 'binade.row_groups' to be an attribute without a value, got 1 : i64}}
func.func @groups(%x: tensor<2x4xf32> {binade.row_groups = 1 : i64}) {
  return
}

// -----

// expected-error@+1 {{expects 'binade.frozen' to be an attribute without a value, got "yes"}}
func.func @frozen(%x: tensor<2xf32> {binade.frozen = "yes"}) {
  return
}

// -----

// expected-error@+1 {{has an unknown attribute 'binade.init' on an argument or result}}
func.func @result(%x: tensor<2xf32>) -> (tensor<2xf32> {binade.init = dense<0.0> : tensor<2xf32>}) {
  return %x : tensor<2xf32>
}

// -----

// expected-error@+1 {{initial value of argument 0 has type 'tensor<3xf32>', the argument 'tensor<2xf32>'}}
func.func @initial_shape(%x: tensor<2xf32> {binade.init = dense<0.0> : tensor<3xf32>}) {
  return
}

// -----

// expected-error@+1 {{initial value of argument 0 has type 'tensor<2xf64>', the argument 'tensor<2xbf16>'}}
func.func @initial_rounded(%x: tensor<2xbf16> {binade.init = dense<0.0> : tensor<2xf64>}) {
  return
}

// -----

// expected-error@+1 {{initializes argument 0 by #binade.companion, but 'stochastic' stores nothing in addition to the parameter}}
func.func @initial_companion(%x: tensor<2xf32> {binade.init = #binade.companion<"w", stochastic>}) {
  return
}

// -----

// expected-error@+1 {{expects 'binade.init' to be elements, #binade.external, #binade.random or #binade.companion, got "zeros"}}
func.func @initial_word(%x: tensor<2xf32> {binade.init = "zeros"}) {
  return
}

// -----

// expected-error@+1 {{initial value of argument 0 has type 'tensor<3xf32>', the argument 'tensor<2xf32>'}}
func.func @external_shape(%x: tensor<2xf32> {binade.init = #binade.external<"w.bin", 0, 12> : tensor<3xf32>}) {
  return
}

// -----

func.func @external_size() {
  // expected-error@+1 {{external data have 8 bytes, 'tensor<3xf32>' needs 12}}
  %0 = binade.constant #binade.external<"w.bin", 0, 8> : tensor<3xf32>
  return
}

// -----

func.func @external_hash() {
  // expected-error@+1 {{expected a SHA-256 of 64 hexadecimal digits, got "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg"}}
  %0 = binade.constant #binade.external<"w.bin", 0, 12, "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg"> : tensor<3xf32>
  return
}

// -----

// expected-error@+1 {{initializes argument 0 with random values, but it has type 'tensor<2xi64>'}}
func.func @random_integers(%x: tensor<2xi64> {binade.init = #binade.random<"normal", 0.0, 1.0>}) {
  return
}

// -----

// expected-error@+1 {{expected distribution "normal" or "uniform", got "gauss"}}
func.func @distribution(%x: tensor<2xf32> {binade.init = #binade.random<"gauss", 0.0, 1.0>}) {
  return
}

// -----

// expected-error@+1 {{expected a finite, non-negative scale, got -1}}
func.func @spread(%x: tensor<2xf32> {binade.init = #binade.random<"normal", 0.0, -1.0>}) {
  return
}

// -----

func.func @accumulation(%x: tensor<2x2xf32>) {
  // expected-error@+1 {{accumulation format 'bf16' is narrower than compute format 'f32'}}
  %0 = binade.matmul %x, %x {precision = #binade.precision<compute = f32, accumulate = bf16, result = f32>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// expected-error@+1 {{expects 'binade.every' to be a positive integer, got 0 : i64}}
func.func @never() -> (tensor<f32> {binade.every = 0 : i64}) {
  %0 = binade.constant dense<0.0> : tensor<f32>
  return %0 : tensor<f32>
}
