// RUN: binade-opt %s --split-input-file --verify-diagnostics \
// RUN:   '--binade-insert-requested-statistics=requests=*:norm'

// A value that a step marks has a kind of `binade list stats` and a layer.

// expected-error@+2 {{expected 'binade.watch' to have a kind of values and a layer, got {kind = "gradent", layer = "g"}}}
// expected-error@+1 {{--stats '*:norm' matches no value of the step}}
func.func @step(%g: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "g",
    binade.watch = {kind = "gradent", layer = "g"}}) {
  return
}

// -----

// expected-error@+1 {{expects 'binade.watch' to be a dictionary, got 3}}
func.func @step(%g: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "g",
    binade.watch = 3 : i64}) {
  return
}
