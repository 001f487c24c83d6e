// RUN: binade-opt %s --split-input-file --binade-identify-computation | FileCheck %s

// What a value is at first, where ops come from and who compiled it do not count.

// CHECK: module attributes {binade.computation = "[[HASH:[0-9a-f]+]]"}
module {
  func.func @step(%w: tensor<4xf32> {binade.init = dense<1.0> : tensor<4xf32>, binade.name = "w", binade.role = #binade.role<parameter>})
      -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
    %0 = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK: module attributes {binade.batches = 1 : i64, binade.computation = "[[HASH]]"}
module attributes {binade.batches = 1 : i64} {
  func.func @step(%p: tensor<4xf32> {binade.init = dense<2.0> : tensor<4xf32>, binade.name = "w", binade.role = #binade.role<parameter>})
      -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
    %0 = binade.mul %p, %p : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("here")
    return %0 : tensor<4xf32>
  }
}

// -----

// How values are wired does.

// CHECK: module attributes
// CHECK-NOT: "[[HASH]]"
// CHECK-SAME: binade.computation = "{{[0-9a-f]+}}"
module {
  func.func @step(%w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
      -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
    %0 = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = binade.mul %0, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
