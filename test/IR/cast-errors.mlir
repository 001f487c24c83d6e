// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func @shape_changes(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.cast' op requires the same shape for all operands and results}}
  %r = binade.cast %a : (tensor<4xf32>) -> tensor<5xbf16>
  return
}

// -----

func.func @integers_do_not_saturate(%a: tensor<4xf32>) {
  // expected-error@+1 {{'binade.cast' op saturates to a largest finite float, got result 'tensor<4xi64>'}}
  %r = binade.cast %a {saturate} : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @save_changes_kind(%a: tensor<4xf32>) {
  // expected-error@+2 {{'binade.save' op inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<4xi64>'}}
  // expected-error@+1 {{failed to infer returned types}}
  %r = binade.save %a : (tensor<4xf32>) -> tensor<4xi64>
  return
}
