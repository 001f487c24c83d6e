// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @scale_is_a_number(%a: tensor<2xf32>) {
  // expected-error@+1 {{operand #0 must be 0D tensor of 32-bit float values, but got 'tensor<2xf32>'}}
  %r = binade.gradient_seed %a : (tensor<2xf32>) -> tensor<f32>
  return
}

// -----

func.func @growth_shrinks(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{'binade.update_scale' op expects growth above 1, backoff in (0, 1) and an interval of at least 1, got 0.5, 0.5 and 2000}}
  %r:2 = binade.update_scale %a, %b, %c {growth = 0.5 : f64, backoff = 0.5 : f64, interval = 2000 : i64} : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @backoff_grows(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{and an interval of at least 1, got 2, 2 and 2000}}
  %r:2 = binade.update_scale %a, %b, %c {growth = 2.0 : f64, backoff = 2.0 : f64, interval = 2000 : i64} : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @no_interval(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{and an interval of at least 1, got 2, 0.5 and 0}}
  %r:2 = binade.update_scale %a, %b, %c {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 0 : i64} : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @count_changes_type(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{failed to verify that all of {growth_count, new_growth_count} have same type}}
  %r:2 = binade.update_scale %a, %b, %c {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i32>)
  return
}

// -----

func.func @floor_above_ceiling(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{expects 0 <= min <= max, got 4 and 2}}
  %r:2 = binade.update_scale %a, %b, %c {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1 : i64, min = 4.0 : f64, max = 2.0 : f64} : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @negative_delay(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{expects a delay of at least 0 and a hysteresis of at least 1, got -1 and 1}}
  %r:2 = binade.update_scale %a, %b, %c {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1 : i64, delay = -1 : i64} : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @hysteresis_without_a_count(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{expects the count of overflows to let pass}}
  %r:2 = binade.update_scale %a, %b, %c {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1 : i64, hysteresis = 2 : i64} : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @count_without_its_successor(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{expects the count of overflows to let pass}}
  %r:2 = binade.update_scale %a, %b, %c, %b {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1 : i64, hysteresis = 2 : i64} : (tensor<f32>, tensor<i64>, tensor<i1>, tensor<i64>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @count_without_hysteresis(%a: tensor<f32>, %b: tensor<i64>, %c: tensor<i1>) {
  // expected-error@+1 {{expects the count of overflows to let pass}}
  %r:2 = binade.update_scale %a, %b, %c, %b {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1 : i64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i1>, tensor<i64>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @limit_is_a_share(%a: tensor<f32>, %b: tensor<i64>) {
  // expected-error@+1 {{'binade.raise_scale' op expects growth above 1, a check of at least 1, a limit from 0 to 1 and a largest above 0, got 2, 100, 1.5 and 1}}
  %r:3 = binade.raise_scale %a, %b, %b, %b, %a {growth = 2.0 : f64, check = 100 : i64, limit = 1.5 : f64, largest = 1.0 : f64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<f32>) -> (tensor<f32>, tensor<i64>, tensor<i1>)
  return
}

// -----

func.func @no_batch() {
  // expected-error@+1 {{'binade.unscale_factor' op expects at least one batch, got 0}}
  %r = binade.unscale_factor {batches = 0 : i64} : () -> tensor<f32>
  return
}
