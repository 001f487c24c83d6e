// RUN: binade-opt %s --binade-materialize-precision --split-input-file | FileCheck %s

// Formats become types, with a cast between different formats; decisions stay as a record.

// CHECK-LABEL: func.func @step
// CHECK-SAME:    (%[[X:.*]]: tensor<8x64xf32>, %[[W:.*]]: tensor<64x64xf32>, %[[B:.*]]: tensor<64xf32>) -> tensor<8x64xf32>
// Arguments are cast at the start of the function, each value once per format.
// CHECK-DAG:     %[[XN:.*]] = binade.cast %[[X]] : (tensor<8x64xf32>) -> tensor<8x64xbf16>
// CHECK-DAG:     %[[WN:.*]] = binade.cast %[[W]] : (tensor<64x64xf32>) -> tensor<64x64xbf16>
// A bias stays in f32.
// CHECK:         %[[Y:.*]] = binade.matmul %[[XN]], %[[WN]], %[[B]] {precision = {{.*}}} : (tensor<8x64xbf16>, tensor<64x64xbf16>, tensor<64xf32>) -> tensor<8x64xbf16>
// CHECK-NEXT:    %[[YW:.*]] = binade.cast %[[Y]] : (tensor<8x64xbf16>) -> tensor<8x64xf32>
// CHECK-NEXT:    %[[Z:.*]] = binade.matmul %[[XN]], %[[WN]]
// CHECK-NEXT:    binade.exp %[[YW]] {{.*}} : (tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT:    %[[S:.*]] = binade.add %[[Y]], %[[Z]] {{.*}} : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
// The result of the function keeps its type.
// CHECK-NEXT:    %[[OUT:.*]] = binade.cast %[[S]] : (tensor<8x64xbf16>) -> tensor<8x64xf32>
// CHECK-NEXT:    return %[[OUT]]
module attributes {binade.policy = #binade.policy<name = "p", hash = "0", text = "{name: p, narrow: bf16, wide: f32}">} {
  func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32> {
    %0 = binade.matmul %x, %w, %b {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, rule = "r">}
      : (tensor<8x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
    %1 = binade.matmul %x, %w {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16>}
      : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %2 = binade.exp %0 {precision = #binade.precision<compute = f32, result = f32>} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %3 = binade.add %0, %1 {precision = #binade.precision<compute = bf16, result = bf16>}
      : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    return %3 : tensor<8x64xf32>
  }
}

// -----

// Parameters and statistics of a norm stay in f32, whatever the decision; masks and
// integers are unchanged; a constant is rounded at compile time.

// CHECK-LABEL: func.func @step
// CHECK:         %[[X:.*]] = binade.cast %arg0 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK:         %[[C:.*]] = binade.constant dense<1.000980e-01> : tensor<4x8xbf16>
// CHECK:         %[[Y:.*]], %{{.*}}, %{{.*}} = binade.layer_norm %[[X]], %arg1 {{.*}} : (tensor<4x8xbf16>, tensor<8xf32>) -> (tensor<4x8xbf16>, tensor<4xf32>, tensor<4xf32>)
// CHECK:         binade.select %arg2, %[[Y]], %[[C]] {{.*}} : (tensor<4x8xi1>, tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
module attributes {binade.policy = #binade.policy<name = "p", hash = "0", text = "{name: p, narrow: bf16, wide: f32}">} {
  func.func @step(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %mask: tensor<4x8xi1>) -> tensor<4x8xf32> {
    %c = binade.constant dense<0.1> : tensor<4x8xf32>
    %y, %mean, %rstd = binade.layer_norm %x, %scale
        {epsilon = 1.0e-5 : f64, precision = #binade.precision<compute = bf16, result = bf16>}
      : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
    %0 = binade.select %mask, %y, %c {precision = #binade.precision<compute = bf16, result = bf16>}
      : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// A saved value is stored in the format that its decision names.

// CHECK-LABEL: func.func @step
// CHECK:         %[[Y:.*]] = binade.tanh %arg0
// CHECK:         %[[N:.*]] = binade.cast %[[Y]] : (tensor<8xf32>) -> tensor<8xbf16>
// CHECK:         %[[SAVED:.*]] = binade.save %[[N]] {{.*}} : (tensor<8xbf16>) -> tensor<8xbf16>
// CHECK:         %[[W:.*]] = binade.cast %[[SAVED]] {binade.phase = #binade.phase<backward>} : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK:         binade.mul %[[W]], %[[W]]
module attributes {binade.policy = #binade.policy<name = "p", hash = "0", text = "{name: p, narrow: bf16, wide: f32}">} {
  func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = binade.tanh %x : (tensor<8xf32>) -> tensor<8xf32>
    %s = binade.save %y {precision = #binade.precision<compute = bf16, result = bf16>} : (tensor<8xf32>) -> tensor<8xf32>
    %0 = binade.mul %s, %s {binade.phase = #binade.phase<backward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
