// RUN: binade-opt %s --split-input-file --binade-hash-computation | FileCheck %s

// Initial values, names of SSA values, locations and `batches = 1` do not affect the hash.

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

// The operands of ops do.

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

// -----

// Decisions affect the hash, but not the policies and lines that they come from.

// CHECK: module attributes {binade.computation = "[[BF16:[0-9a-f]+]]"}
module {
  func.func @step(%w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
      -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
    %0 = binade.mul %w, %w {precision = #binade.precision<compute = bf16, result = f32, rule = "a.yaml:7">}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK: module attributes {binade.computation = "[[BF16]]"}
module {
  func.func @step(%w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
      -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
    %0 = binade.mul %w, %w {precision = #binade.precision<compute = bf16, result = f32, rule = "b.yaml:9">}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK: module attributes
// CHECK-NOT: "[[BF16]]"
// CHECK-SAME: binade.computation = "{{[0-9a-f]+}}"
// CHECK: rule = "a.yaml:7"
module {
  func.func @step(%w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
      -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
    %0 = binade.mul %w, %w {precision = #binade.precision<compute = f16, result = f32, rule = "a.yaml:7">}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// f32 by a rule is f32, and what types say need not be decided.

// CHECK: module attributes {binade.computation = "[[WIDE:[0-9a-f]+]]"}
module {
  func.func @step(%w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
      -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
    %0 = binade.mul %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK: module attributes {binade.computation = "[[WIDE]]"}
module {
  func.func @step(%w: tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
      -> (tensor<4xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) {
    %0 = binade.mul %w, %w {user.storage = #binade.storage<states = f32>,
        precision = #binade.precision<compute = f32, result = f32, rule = "a.yaml:7">}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
