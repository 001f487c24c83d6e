// RUN: binade-opt %s --binade-assign-precision=policy=bf16 | FileCheck %s --check-prefixes=ALL,BF16
// RUN: binade-opt %s --binade-assign-precision=policy=tiger-half | FileCheck %s --check-prefixes=ALL,TIGER
// RUN: binade-opt %s --binade-assign-precision=policy=tiger-half-bf16 | FileCheck %s --check-prefixes=ALL,BF16
// RUN: binade-opt %s --binade-assign-precision=policy=autocast-onnx | FileCheck %s --check-prefixes=ALL,ONNX

// Policies that are narrow throughout: no class keeps an op wide.

// ALL-LABEL: func.func @step
func.func @step(%x: tensor<8x8xf32>, %s: tensor<8xf32>, %labels: tensor<8xi64>,
    %w: tensor<8x8xf32> {binade.name = "w", binade.role = #binade.role<parameter>}) -> tensor<f32> {
  // BF16:  binade.layer_norm {{.*}} #binade.precision<compute = bf16, result = bf16,
  // TIGER: binade.layer_norm {{.*}} #binade.precision<compute = f16, result = f16,
  // ONNX:  binade.layer_norm {{.*}} #binade.precision<compute = f16, result = f16,
  %0:3 = binade.layer_norm %x, %s {epsilon = 1.0e-5 : f64} : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>)
  // BF16:  binade.exp {{.*}} #binade.precision<compute = bf16, result = bf16,
  // TIGER: binade.exp {{.*}} #binade.precision<compute = f16, result = f16,
  // ONNX:  binade.exp {{.*}} #binade.precision<compute = f16, result = f16,
  %1 = binade.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // The converters' block list has Max: f32 between casts.
  // BF16:  binade.max {{.*}} #binade.precision<compute = bf16, result = bf16,
  // TIGER: binade.max {{.*}} #binade.precision<compute = f16, result = f16,
  // ONNX:  binade.max {{.*}} #binade.precision<compute = f32, result = f16, rule = "autocast-onnx.yaml
  %2 = binade.max %0#0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // BF16:  binade.add {{.*}} #binade.precision<compute = bf16, result = bf16,
  // TIGER: binade.add {{.*}} #binade.precision<compute = f16, result = f16,
  // ONNX:  binade.add {{.*}} #binade.precision<compute = f16, result = f16,
  %3 = binade.add %2, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // A parameter, which is f32, makes no product wide.
  // BF16:  binade.mul {{.*}} #binade.precision<compute = bf16, result = bf16,
  // TIGER: binade.mul {{.*}} #binade.precision<compute = f16, result = f16,
  // ONNX:  binade.mul {{.*}} #binade.precision<compute = f16, result = f16,
  %scaled = binade.mul %3, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // BF16:  binade.matmul {{.*}} #binade.precision<compute = bf16, accumulate = f32, result = bf16,
  // TIGER: binade.matmul {{.*}} #binade.precision<compute = f16, accumulate = f32, result = f16,
  // ONNX:  binade.matmul {{.*}} #binade.precision<compute = f16, accumulate = f32, result = f16,
  %4 = binade.matmul %scaled, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // BF16:  binade.cross_entropy {{.*}} #binade.precision<compute = bf16, result = bf16,
  // TIGER: binade.cross_entropy {{.*}} #binade.precision<compute = f16, result = f16,
  // ONNX:  binade.cross_entropy {{.*}} #binade.precision<compute = f16, result = f16,
  %losses, %maximum, %logarithm = binade.cross_entropy %4, %labels {ignore_index = -100 : i64}
    : (tensor<8x8xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  // The losses of labels are f32, and so is their mean.
  // ALL:   binade.reduce_sum {{.*}} #binade.precision<compute = f32, result = f32,
  %sum = binade.reduce_sum %losses {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %weight = binade.label_weight %labels {ignore_index = -100 : i64} : (tensor<8xi64>) -> tensor<f32>
  // ALL:   binade.mul {{.*}} #binade.precision<compute = f32, result = f32,
  %mean = binade.mul %sum, %weight : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // So is its gradient, which begins with the loss scale.
  // ALL:   binade.mul {{.*}} #binade.precision<compute = f32, result = f32,
  // ALL:   binade.broadcast {{.*}} #binade.precision<compute = f32, result = f32,
  %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
  %dsum = binade.mul %seed, %weight {binade.phase = #binade.phase<backward>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %dlosses = binade.broadcast %dsum {axes = array<i64>, binade.phase = #binade.phase<backward>} : (tensor<f32>) -> tensor<8xf32>
  // BF16:  binade.cross_entropy_grad {{.*}} #binade.precision<compute = bf16, result = bf16,
  // TIGER: binade.cross_entropy_grad {{.*}} #binade.precision<compute = f16, result = f16,
  // ONNX:  binade.cross_entropy_grad {{.*}} #binade.precision<compute = f16, result = f16,
  %dlogits = binade.cross_entropy_grad %dlosses, %4, %labels, %maximum, %logarithm {ignore_index = -100 : i64, binade.phase = #binade.phase<backward>}
    : (tensor<8xf32>, tensor<8x8xf32>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  // What the optimizer does with gradients is f32.
  // ALL:   binade.exp {{.*}} #binade.precision<compute = f32, result = f32,
  %clipped = binade.exp %dlogits {binade.phase = #binade.phase<optimizer>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %mean : tensor<f32>
}
