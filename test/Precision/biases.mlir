// RUN: split-file %s %t
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/narrow.yaml | FileCheck %s --check-prefix=ASSIGN
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/narrow.yaml --binade-materialize-precision > %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: binade-opt %t.mlir --binade-materialize-precision | diff - %t.mlir
// RUN: binade-opt %t.mlir --binade-set-cuda-target --binade-expand-composites | FileCheck %s --check-prefix=CUDA
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/wide.yaml --binade-materialize-precision \
// RUN:   | FileCheck %s --check-prefix=WIDE
// RUN: not binade-opt %t/pin.mlir --binade-materialize-precision 2>&1 | FileCheck %s --check-prefix=PIN

// With `biases: narrow`, a contraction that computes narrow reads its bias rounded to the
// format of its result. Ops without a bias, and contractions in f32, have no such format.
// The sums that an `attention_grad` reads are not biases.

// ASSIGN-LABEL: func.func @step
// ASSIGN:         binade.matmul {{.*}} #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [unit, unit, bf16], rule = "class allow">
// ASSIGN:         binade.conv {{.*}} #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [unit, unit, bf16], rule = "class allow">
// ASSIGN:         binade.matmul %{{.*}}, %arg1 {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, rule = "class allow">}
// ASSIGN:         binade.matmul {{.*}} #binade.precision<compute = f32, accumulate = f32, result = f32>
// ASSIGN:         binade.matmul {{.*}} #binade.precision<compute = bf16, accumulate = f32, result = bf16>
// ASSIGN:         binade.attention_grad {{.*}} #binade.precision<compute = bf16, accumulate = f32, result = bf16, rule = "class allow">

// The bias is cast once for all that read it.

// CHECK-LABEL: func.func @step
// CHECK:         %[[B:.*]] = binade.cast %arg2 : (tensor<8xf32>) -> tensor<8xbf16>
// CHECK-NOT:     binade.cast %arg2
// CHECK:         binade.matmul %{{.*}}, %{{.*}}, %[[B]] {{.*}} : (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<4x8xbf16>
// CHECK:         binade.conv %{{.*}}, %{{.*}}, %[[B]] {{.*}} : (tensor<1x2x4x4xbf16>, tensor<8x2x1x1xbf16>, tensor<8xbf16>) -> tensor<1x8x4x4xbf16>
// CHECK:         binade.matmul {{.*}} : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK:         binade.matmul {{.*}} : (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8xf32>) -> tensor<4x8xbf16>
// CHECK:         binade.attention_grad {{.*}} tensor<4xf32>) -> (

// A GPU's library adds it. The bias that a pin leaves in f32 is added by a kernel.

// CUDA-LABEL: func.func @step
// CUDA:         %[[B:.*]] = binade.cast %arg2 : (tensor<8xf32>) -> tensor<8xbf16>
// CUDA:         binade.matmul %{{.*}}, %{{.*}}, %[[B]] {{.*}} -> tensor<4x8xbf16>
// CUDA:         binade.matmul %{{[^,]*}}, %{{[^,]*}} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xf32>

// A policy that extends another one may keep biases in f32.

// WIDE-LABEL: func.func @step
// WIDE:         binade.matmul {{.*}} : (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8xf32>) -> tensor<4x8xbf16>
// WIDE:         binade.conv {{.*}} : (tensor<1x2x4x4xbf16>, tensor<8x2x1x1xbf16>, tensor<8xf32>) -> tensor<1x8x4x4xbf16>

// PIN: error: an operand is quantized, unit, or a bias in f32, bf16 or f16, not f64

//--- narrow.yaml
name: narrow-biases
extends: bf16-amp
biases: narrow
//--- wide.yaml
name: wide-biases
extends: narrow.yaml
biases: wide
//--- step.mlir
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %image: tensor<1x2x4x4xf32>,
                %kernel: tensor<8x2x1x1xf32>, %lse: tensor<4xf32>)
    -> (tensor<4x8xf32>, tensor<1x8x4x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = binade.matmul %x, %w, %b : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = binade.conv %image, %kernel, %b {strides = array<i64: 1, 1>, padding_low = array<i64: 0, 0>,
      padding_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1}
    : (tensor<1x2x4x4xf32>, tensor<8x2x1x1xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
  %2 = binade.matmul %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = binade.matmul %x, %w, %b {precision = #binade.precision<compute = f32, accumulate = f32, result = f32>}
    : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = binade.matmul %x, %w, %b {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16>}
    : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %5:3 = binade.attention_grad %x, %x, %x, %x, %x, %lse {scale = 1.0, binade.phase = #binade.phase<backward>}
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  return %0, %1, %2, %3, %4, %5#0
    : tensor<4x8xf32>, tensor<1x8x4x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
//--- pin.mlir
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = binade.matmul %x, %w, %b {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [unit, unit, f64]>}
    : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
