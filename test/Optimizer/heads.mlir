// RUN: binade-opt %s --binade-append-optimizer='optimizer=adam_mini group=query:heads=2' | FileCheck %s
// DEFINE: %{append} =
// DEFINE: %{errors} = not binade-opt %s --binade-append-optimizer='%{append}' 2>&1 | FileCheck %s --check-prefix

// The rows of a parameter are divided into heads, which its `prepare` sees as rows.

// CHECK:      func.func private @adam_mini.prepare.heads2(
// CHECK-SAME: attributes {binade.row_heads = 2 : i64}
// CHECK:      func.func @step(
// CHECK-SAME: tensor<2xf32> {binade.init = dense<0.000000e+00> : tensor<2xf32>, binade.name = "exp_avg_sq_mean/query",
// CHECK-SAME: tensor<6xf32> {binade.init = dense<0.000000e+00> : tensor<6xf32>, binade.name = "exp_avg_sq_mean/value",
// CHECK-SAME: tensor<f32> {binade.init = dense<0.000000e+00> : tensor<f32>, binade.name = "exp_avg_sq_mean/bias",
// CHECK:      prepare = @adam_mini.prepare.heads2
// CHECK:      prepare = @adam_mini.prepare}
// CHECK:      prepare = @adam_mini.prepare.vector}

// REDEFINE: %{append} = optimizer=adam_mini group=query:heads=4
// RUN: %{errors} UNEVEN
// UNEVEN: error: parameter 'query' has 6 rows, which cannot be divided into 4 heads; set 'heads' in a group of other parameters

// REDEFINE: %{append} = optimizer=adam_mini settings=heads=2
// RUN: %{errors} VECTOR
// VECTOR: error: parameter 'bias' has 6 rows, which cannot be divided into 2 heads

// REDEFINE: %{append} = optimizer=adam_mini group=query:heads=1.5
// RUN: %{errors} NUMBER
// NUMBER: error: expected a number of heads of at least 1 for 'heads', got '1.5'

// REDEFINE: %{append} = optimizer=adamw group=query:heads=2
// RUN: %{errors} ELEMENTS
// ELEMENTS: error: optimizer 'adamw' computes nothing by row, so that 'heads' has no effect; leave it out
func.func @gradient(%q: tensor<6x4xf32> {binade.name = "query", binade.role = #binade.role<parameter>},
                    %v: tensor<6x4xf32> {binade.name = "value", binade.role = #binade.role<parameter>},
                    %b: tensor<6xf32> {binade.name = "bias", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>},
        tensor<6x4xf32> {binade.name = "query", binade.role = #binade.role<gradient>},
        tensor<6x4xf32> {binade.name = "value", binade.role = #binade.role<gradient>},
        tensor<6xf32> {binade.name = "bias", binade.role = #binade.role<gradient>}) {
  %loss = binade.reduce_sum %b {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  return %loss, %q, %v, %b : tensor<f32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>
}
