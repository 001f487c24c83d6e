// RUN: binade-opt %s --split-input-file --verify-diagnostics --binade-use-delayed-scaling | FileCheck %s

// The absmax that scales a quantization is state. The step sets it to the maximum of its own
// absmax and the history, unless that is 0 or its own absmax is not finite.

// CHECK-LABEL: func.func @step(
// CHECK-SAME:      %[[AMAX:[a-z0-9]*]]: tensor<f32> {binade.init = dense<4.480000e+02> : tensor<f32>, binade.name = "amax/forward neg in f8E4M3FN", binade.role = #binade.role<buffer>}
// CHECK-SAME:      %[[HISTORY:[a-z0-9]*]]: tensor<3xf32> {binade.init = dense<0.000000e+00> : tensor<3xf32>, binade.name = "amax_history/forward neg in f8E4M3FN", binade.role = #binade.role<buffer>}
// CHECK-SAME:      %[[X:[a-z0-9]*]]: tensor<4xbf16>
// CHECK-SAME:      -> (tensor<4xf8E4M3FN>, tensor<f32>, tensor<3xf32> {binade.name = "amax_history/forward neg in f8E4M3FN", binade.role = #binade.role<buffer>}, tensor<f32> {binade.name = "amax/forward neg in f8E4M3FN", binade.role = #binade.role<buffer>})
// CHECK:         %[[H:.*]] = binade.neg %[[X]]
// CHECK-NEXT:    binade.quantize %[[H]] by %[[AMAX]] {
// CHECK:         %[[WIDE:.*]] = binade.cast %[[H]]
// CHECK:         %[[ABS:.*]] = binade.abs %[[WIDE]]
// CHECK:         %[[LARGEST:.*]] = binade.reduce_max %[[ABS]]
// CHECK:         %[[KNOWN:.*]] = binade.compare %[[LARGEST]], %{{.*}} {comparison = #binade.comparison<less_equal>
// CHECK:         %[[OWN:.*]] = binade.select %[[KNOWN]], %[[LARGEST]],
// CHECK:         %[[BEFORE:.*]] = binade.reduce_max %[[HISTORY]]
// CHECK:         %[[A:.*]] = binade.max %[[OWN]], %[[BEFORE]]
// CHECK:         %[[REST:.*]] = binade.slice %[[HISTORY]]
// CHECK:         %[[MOVED:.*]] = binade.concat %[[REST]],
// CHECK:         %[[FINITE:.*]] = binade.and %[[KNOWN]],
// CHECK:         %[[USABLE:.*]] = binade.and %{{.*}}, %[[FINITE]]
// CHECK:         %[[NEXT:.*]] = binade.select %[[USABLE]], %[[A]], %[[AMAX]]
// CHECK:         return %{{.*}}, %{{.*}}, %[[MOVED]], %[[NEXT]]
func.func @step(%x: tensor<4xbf16> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<4xf8E4M3FN>, tensor<f32>) {
  %h = binade.neg %x : (tensor<4xbf16>) -> tensor<4xbf16>
  %q:2 = binade.quantize %h {saturate, format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse, history = 4>}
    : (tensor<4xbf16>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
  return %q#0, %q#1 : tensor<4xf8E4M3FN>, tensor<f32>
}

// -----

func.func @step(%x: tensor<4xf32>, %amax: tensor<f32>) -> (tensor<4xf8E4M3FN>, tensor<f32>) {
  // expected-error@+1 {{expects no 'amax', because its format has no history}}
  %q:2 = binade.quantize %x by %amax {saturate, format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>}
    : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf8E4M3FN>, tensor<f32>)
  return %q#0, %q#1 : tensor<4xf8E4M3FN>, tensor<f32>
}

// -----

// expected-error@+1 {{a history needs at least one step, and one scale per tensor without 'expand'}}
func.func private @f() attributes {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, history = 4>}

// -----

// expected-error@+1 {{expected a margin of 0 to 32, with rule 'inverse' or 'inverse_power'}}
func.func private @f() attributes {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, margin = 1>}

// -----

// expected-error@+1 {{expected a margin of 0 to 32}}
func.func private @f() attributes {format = #binade.quantized<f8E4M3FN, per_row, scale = f32, rule = inverse, margin = 33>}
