// RUN: binade-opt %s --binade-assign-precision=policy=bf16-amp --split-input-file | FileCheck %s

// Decisions are attributes: no type changes, and the module names its policy.

// CHECK: module attributes {binade.policy = #binade.policy<name = "bf16-amp", hash = "{{[0-9a-f]+}}", text = "{{.*}}name: bf16-amp\0Anarrow: bf16

// CHECK-LABEL: func.func @step
// CHECK-SAME:    %arg0: tensor<8x64xf32>, %arg1: tensor<64x64xf32>, %arg2: tensor<64xf32>
module {
  func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32> {
    // Contractions compute in the narrow format and accumulate in f32.
    // CHECK: binade.matmul {{.*}} {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [unit, unit, bf16], rule = "class allow">} : (tensor<8x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
    %0 = binade.matmul %x, %w, %b : (tensor<8x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
    // The operand rule: narrow where all floating-point operands are ...
    // CHECK: binade.gelu {{.*}} #binade.precision<compute = bf16, result = bf16, rule = "class infer">
    %1 = binade.gelu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
    // CHECK: binade.reshape {{.*}} #binade.precision<compute = bf16, result = bf16, rule = "class clear">
    %2 = binade.reshape %1 : (tensor<8x64xf32>) -> tensor<8x64xf32>
    // ... and wide where one is not: the residual stream stays in f32.
    // CHECK: binade.add {{.*}} #binade.precision<compute = f32, result = f32, rule = "class infer">
    %3 = binade.add %x, %2 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    // Constants have no say.
    // CHECK: binade.constant dense<5.000000e-01> : tensor<8x64xf32>
    %half = binade.constant dense<0.5> : tensor<8x64xf32>
    // CHECK: binade.mul {{.*}} #binade.precision<compute = bf16, result = bf16, rule = "class infer">
    %4 = binade.mul %2, %half : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    // CHECK: binade.exp {{.*}} #binade.precision<compute = f32, result = f32, rule = "class deny">
    %5 = binade.exp %4 : (tensor<8x64xf32>) -> tensor<8x64xf32>
    // A rule of the policy deviates from the class, and is named.
    // CHECK: binade.reduce_mean {{.*}} #binade.precision<compute = bf16, result = bf16, rule = "bf16-amp.yaml:{{[0-9]+}}">
    %6 = binade.reduce_mean %4 {axes = array<i64: 0>} : (tensor<8x64xf32>) -> tensor<64xf32>
    %7 = binade.add %3, %5 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    return %7 : tensor<8x64xf32>
  }
}

// -----

// Masks and indices do not count as floating-point operands; integer ops have no decision.

// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x8xf32>, %mask: tensor<8x8xi1>, %labels: tensor<8xi64>)
    -> (tensor<8xf32>, tensor<8xi64>) {
  %0 = binade.matmul %x, %w : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  %low = binade.constant dense<0xFF800000> : tensor<8x8xf32>
  // CHECK: binade.select {{.*}} {precision = #binade.precision<compute = bf16, result = bf16, rule = "class clear">}
  %1 = binade.select %mask, %0, %low : (tensor<8x8xi1>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: binade.cross_entropy {{.*}} #binade.precision<compute = f32, result = f32, rule = "class deny">
  %losses, %maximum, %logarithm = binade.cross_entropy %1, %labels {ignore_index = -100 : i64}
    : (tensor<8x8xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: binade.add %arg3, %arg3 : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %2 = binade.add %labels, %labels : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  return %losses, %2 : tensor<8xf32>, tensor<8xi64>
}

// -----

// A decision without a rule is a pin: it stays, and others follow it. A decision with a
// rule is replaced.

// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: binade.matmul {{.*}} {precision = #binade.precision<compute = f32, accumulate = f32, result = f32>}
  %0 = binade.matmul %x, %x {precision = #binade.precision<compute = f32, accumulate = f32, result = f32>}
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: binade.relu {{.*}} #binade.precision<compute = f32, result = f32, rule = "class clear">
  %1 = binade.relu %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: binade.exp {{.*}} {precision = #binade.precision<compute = bf16, result = bf16>}
  %2 = binade.exp %1 {precision = #binade.precision<compute = bf16, result = bf16>}
    : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: binade.tanh {{.*}} #binade.precision<compute = bf16, result = bf16, rule = "class infer">
  %3 = binade.tanh %2 {precision = #binade.precision<compute = f32, result = f32, rule = "old.yaml:3">}
    : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
