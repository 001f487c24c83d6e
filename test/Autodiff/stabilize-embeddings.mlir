// RUN: binade-opt %s --binade-stabilize-embeddings --split-input-file --verify-diagnostics | FileCheck %s

// Rows that a batch names are normalized, those of positions are not. Both lookups of a
// table share a norm; a table that is drawn is drawn anew.

// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    %[[TOKEN:[^:]*]]: tensor<94x2xf32> {binade.init = #binade.random<"uniform", -2.500000e-01 : f64, 5.000000e-01 : f64>, binade.name = "token.weight"
// CHECK-SAME:    %[[POSITION:[^:]*]]: tensor<3x2xf32> {binade.init = #binade.random<"normal", 0.000000e+00 : f64, 2.000000e-02 : f64>, binade.name = "position.weight"
// CHECK-SAME:    %[[SCALE:[^:]*]]: tensor<2xf32> {binade.init = dense<1.000000e+00> : tensor<2xf32>, binade.name = "token.norm.weight", binade.role = #binade.role<parameter>}
// CHECK-SAME:    %[[SHIFT:[^:]*]]: tensor<2xf32> {binade.init = dense<0.000000e+00> : tensor<2xf32>, binade.name = "token.norm.bias", binade.role = #binade.role<parameter>}
func.func @forward(
    %token: tensor<94x2xf32> {binade.name = "token.weight", binade.role = #binade.role<parameter>, binade.init = #binade.random<"normal", 0.0, 0.02>},
    %position: tensor<3x2xf32> {binade.name = "position.weight", binade.role = #binade.role<parameter>, binade.init = #binade.random<"normal", 0.0, 0.02>},
    %ids: tensor<5x3xi64> {binade.name = "ids", binade.role = #binade.role<batch>})
    -> (tensor<5x3x2xf32> {binade.name = "y", binade.role = #binade.role<output>}) {
  // CHECK:      %[[ROWS:.*]] = binade.gather %[[TOKEN]], %{{.*}}
  // CHECK-NEXT: %[[NORM:.*]], %{{.*}}, %{{.*}} = binade.layer_norm %[[ROWS]], %[[SCALE]], %[[SHIFT]] {epsilon = 1.000000e-05 : f64}
  %0 = binade.gather %token, %ids : (tensor<94x2xf32>, tensor<5x3xi64>) -> tensor<5x3x2xf32>
  // CHECK:      %[[PLACES:.*]] = binade.gather %[[POSITION]]
  // CHECK-NEXT: %[[WHERE:.*]] = binade.broadcast %[[PLACES]]
  %places = binade.constant dense<[0, 1, 2]> : tensor<3xi64>
  %1 = binade.gather %position, %places : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  %2 = binade.broadcast %1 {axes = array<i64: 1, 2>} : (tensor<3x2xf32>) -> tensor<5x3x2xf32>
  // CHECK:      %[[SUM:.*]] = binade.add %[[NORM]], %[[WHERE]]
  %3 = binade.add %0, %2 : (tensor<5x3x2xf32>, tensor<5x3x2xf32>) -> tensor<5x3x2xf32>
  // CHECK:      %[[TURNED:.*]] = binade.reshape %{{.*}} -> tensor<5x3xi64>
  // CHECK-NEXT: %[[AGAIN:.*]] = binade.gather %[[TOKEN]], %[[TURNED]]
  // CHECK-NEXT: %[[SECOND:.*]], %{{.*}}, %{{.*}} = binade.layer_norm %[[AGAIN]], %[[SCALE]], %[[SHIFT]]
  // CHECK:      binade.add %[[SUM]], %[[SECOND]]
  %4 = binade.reshape %ids : (tensor<5x3xi64>) -> tensor<3x5xi64>
  %5 = binade.reshape %4 : (tensor<3x5xi64>) -> tensor<5x3xi64>
  %6 = binade.gather %token, %5 : (tensor<94x2xf32>, tensor<5x3xi64>) -> tensor<5x3x2xf32>
  %7 = binade.add %3, %6 : (tensor<5x3x2xf32>, tensor<5x3x2xf32>) -> tensor<5x3x2xf32>
  return %7 : tensor<5x3x2xf32>
}

// -----

// Weights that are given stay.

// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    binade.init = dense<3.000000e+00> : tensor<4x2xf32>, binade.name = "table"
// CHECK-SAME:    binade.name = "table.norm.weight"
func.func @forward(
    %table: tensor<4x2xf32> {binade.name = "table", binade.role = #binade.role<parameter>, binade.init = dense<3.0> : tensor<4x2xf32>},
    %ids: tensor<5xi64> {binade.name = "ids", binade.role = #binade.role<batch>})
    -> (tensor<5x2xf32> {binade.name = "y", binade.role = #binade.role<output>}) {
  %0 = binade.gather %table, %ids : (tensor<4x2xf32>, tensor<5xi64>) -> tensor<5x2xf32>
  return %0 : tensor<5x2xf32>
}

// -----

// expected-error@+1 {{has no embedding: no row of a parameter is looked up by indices from a batch}}
func.func @forward(
    %position: tensor<3x2xf32> {binade.name = "position.weight", binade.role = #binade.role<parameter>})
    -> (tensor<3x2xf32> {binade.name = "y", binade.role = #binade.role<output>}) {
  %places = binade.constant dense<[0, 1, 2]> : tensor<3xi64>
  %1 = binade.gather %position, %places : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// -----

// expected-error@+1 {{already has a parameter 'token.norm.weight': its embedding is stable}}
func.func @forward(
    %token: tensor<4x2xf32> {binade.name = "token.weight", binade.role = #binade.role<parameter>},
    %scale: tensor<2xf32> {binade.name = "token.norm.weight", binade.role = #binade.role<parameter>},
    %ids: tensor<5xi64> {binade.name = "ids", binade.role = #binade.role<batch>})
    -> (tensor<5x2xf32> {binade.name = "y", binade.role = #binade.role<output>}) {
  %0 = binade.gather %token, %ids : (tensor<4x2xf32>, tensor<5xi64>) -> tensor<5x2xf32>
  return %0 : tensor<5x2xf32>
}
