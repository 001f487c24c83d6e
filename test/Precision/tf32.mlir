// RUN: binade-opt %s --split-input-file --binade-assign-precision=policy=tf32 \
// RUN:   --binade-materialize-precision | FileCheck %s
// RUN: binade-opt %s --split-input-file --binade-assign-precision=policy=tf32 \
// RUN:   --binade-materialize-precision -o %t.once.mlir
// RUN: binade-opt %t.once.mlir --split-input-file --binade-materialize-precision \
// RUN:   -o %t.twice.mlir
// RUN: cmp %t.once.mlir %t.twice.mlir

// Operands of contractions are rounded, each value once, and stay f32; sums and results
// are f32, and nothing else changes. A bias is not multiplied and thus not rounded.

// CHECK-LABEL: func.func @step
// CHECK-SAME:    (%[[X:.*]]: tensor<8x64xf32>, %[[W:.*]]: tensor<64x64xf32>, %[[B:.*]]: tensor<64xf32>)
// CHECK-DAG:     %[[XR:.*]] = binade.round_to %[[X]] {format = tf32} : tensor<8x64xf32>
// CHECK-DAG:     %[[WR:.*]] = binade.round_to %[[W]] {format = tf32} : tensor<64x64xf32>
// CHECK:         %[[Y:.*]] = binade.matmul %[[XR]], %[[WR]], %[[B]]
// CHECK-SAME:      #binade.precision<compute = tf32, accumulate = f32, result = f32, rule = "tf32.yaml:{{[0-9]+}}">
// CHECK-SAME:      -> tensor<8x64xf32>
// CHECK-NEXT:    %[[G:.*]] = binade.gelu %[[Y]] {precision = #binade.precision<compute = f32, result = f32
// CHECK-NEXT:    %[[GR:.*]] = binade.round_to %[[G]] {format = tf32} : tensor<8x64xf32>
// CHECK-NEXT:    %[[Z:.*]] = binade.matmul %[[GR]], %[[WR]]
// CHECK-NEXT:    binade.add %[[G]], %[[Z]]
func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32> {
  %0 = binade.matmul %x, %w, %b : (tensor<8x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %1 = binade.gelu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = binade.matmul %1, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %3 = binade.add %1, %2 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %3 : tensor<8x64xf32>
}

// -----

// Constants are rounded at compile time: 0.1 is 0x3DCCCCCD, rounded 0x3DCCC000. Constants
// that TF32 represents stay. Values for the backward pass are saved before rounding.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[TENTH:.*]] = binade.constant dense<0.0999755859> : tensor<8x8xf32>
// CHECK-DAG:     %[[HALF:.*]] = binade.constant dense<5.000000e-01> : tensor<8x8xf32>
// CHECK:         binade.matmul %[[TENTH]], %[[HALF]]
// CHECK:         %[[S:.*]] = binade.save %arg0
// CHECK-NEXT:    %[[R:.*]] = binade.round_to %[[S]] {binade.phase = #binade.phase<backward>, format = tf32}
// CHECK-NEXT:    binade.matmul %[[R]], %[[R]]
func.func @step(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %tenth = binade.constant dense<0.1> : tensor<8x8xf32>
  %half = binade.constant dense<0.5> : tensor<8x8xf32>
  %0 = binade.matmul %tenth, %half : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = binade.save %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = binade.matmul %s, %s {binade.phase = #binade.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// After a pin in bf16 the factors are widened first: both casts are of one phase.

// CHECK-LABEL: func.func @step
// CHECK:         %[[N:.*]] = binade.neg {{.*}} -> tensor<8x8xbf16>
// CHECK-NEXT:    %[[W:.*]] = binade.cast %[[N]] {binade.phase = #binade.phase<backward>} : (tensor<8x8xbf16>) -> tensor<8x8xf32>
// CHECK-NEXT:    %[[R:.*]] = binade.round_to %[[W]] {binade.phase = #binade.phase<backward>, format = tf32}
// CHECK-NEXT:    binade.matmul %[[R]], %[[R]]
func.func @step(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = binade.neg %x {binade.phase = #binade.phase<backward>, precision = #binade.precision<compute = bf16, result = bf16>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = binade.matmul %0, %0 {binade.phase = #binade.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
