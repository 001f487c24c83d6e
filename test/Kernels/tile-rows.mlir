// RUN: binade-opt %s --split-input-file --binade-tile-rows="max-elements=64 min-rows=4" \
// RUN: | FileCheck %s

// Logits of 16 rows and 32 classes are computed in tiles of 4 rows, forward and
// backward, with the ops between; the loss, which reads them, follows. The sum
// over rows is f32 and rounded once, like the matmul before tiling.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[G:.*]] = binade.broadcast %arg3
// CHECK:         %[[T:.*]]:3 = binade.tile 4 slices 3 joins 2(%arg0, %arg2, %[[G]], %arg1) {
// CHECK-NEXT:    ^bb0(%[[H:.*]]: tensor<4x8xbf16>, %[[L:.*]]: tensor<4xi64>, %[[GP:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<32x8xbf16>):
// CHECK-NEXT:      %[[X:.*]] = binade.matmul %[[H]], %[[W]] {transpose_rhs} : {{.*}} -> tensor<4x32xbf16>
// CHECK-NEXT:      %[[XF:.*]] = binade.cast %[[X]]
// CHECK-NEXT:      %[[S:.*]] = binade.save %[[XF]]
// CHECK-NEXT:      %[[LOSS:.*]], %[[MAX:.*]], %[[LOG:.*]] = binade.cross_entropy %[[XF]], %[[L]]
// CHECK-NEXT:      %[[SM:.*]] = binade.save %[[MAX]] : (tensor<4xf32>)
// CHECK-NEXT:      %[[SL:.*]] = binade.save %[[LOG]] : (tensor<4xf32>)
// CHECK-NEXT:      %[[D:.*]] = binade.cross_entropy_grad %[[GP]], %[[S]], %[[L]], %[[SM]], %[[SL]]
// CHECK-NEXT:      %[[DN:.*]] = binade.cast %[[D]] {{.*}} (tensor<4x32xf32>) -> tensor<4x32xbf16>
// CHECK-NEXT:      %[[DH:.*]] = binade.matmul %[[DN]], %[[W]] {{.*}} -> tensor<4x8xbf16>
// CHECK-NEXT:      %[[DW:.*]] = binade.matmul %[[DN]], %[[H]] {{.*}}transpose_lhs} : {{.*}} -> tensor<32x8xf32>
// CHECK-NEXT:      binade.yield %[[LOSS]], %[[DH]], %[[DW]]
// CHECK:         %[[R:.*]] = binade.cast %[[T]]#2 {binade.phase = #binade.phase<backward>} : (tensor<32x8xf32>) -> tensor<32x8xbf16>
// CHECK:         %[[SUM:.*]] = binade.reduce_sum %[[T]]#0
// CHECK:         return %[[SUM]], %[[T]]#1, %[[R]]
func.func @step(%h: tensor<16x8xbf16>, %w: tensor<32x8xbf16>, %labels: tensor<16xi64>,
                %seed: tensor<f32>) -> (tensor<f32>, tensor<16x8xbf16>, tensor<32x8xbf16>) {
  %x = binade.matmul %h, %w {transpose_rhs}
    : (tensor<16x8xbf16>, tensor<32x8xbf16>) -> tensor<16x32xbf16>
  %xf = binade.cast %x : (tensor<16x32xbf16>) -> tensor<16x32xf32>
  %s = binade.save %xf : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %losses, %maximum, %logarithm = binade.cross_entropy %xf, %labels {ignore_index = -100 : i64}
    : (tensor<16x32xf32>, tensor<16xi64>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  %smaximum = binade.save %maximum : (tensor<16xf32>) -> tensor<16xf32>
  %slogarithm = binade.save %logarithm : (tensor<16xf32>) -> tensor<16xf32>
  %loss = binade.reduce_sum %losses {axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<f32>
  %g = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>}
    : (tensor<f32>) -> tensor<16xf32>
  %d = binade.cross_entropy_grad %g, %s, %labels, %smaximum, %slogarithm
    {binade.phase = #binade.phase<backward>, ignore_index = -100 : i64}
    : (tensor<16xf32>, tensor<16x32xf32>, tensor<16xi64>, tensor<16xf32>, tensor<16xf32>) -> tensor<16x32xf32>
  %dn = binade.cast %d {binade.phase = #binade.phase<backward>}
    : (tensor<16x32xf32>) -> tensor<16x32xbf16>
  %dh = binade.matmul %dn, %w {binade.phase = #binade.phase<backward>}
    : (tensor<16x32xbf16>, tensor<32x8xbf16>) -> tensor<16x8xbf16>
  %dw = binade.matmul %dn, %h {binade.phase = #binade.phase<backward>, transpose_lhs}
    : (tensor<16x32xbf16>, tensor<16x8xbf16>) -> tensor<32x8xbf16>
  return %loss, %dh, %dw : tensor<f32>, tensor<16x8xbf16>, tensor<32x8xbf16>
}

// -----

// A gradient that depends on the loss needs all rows first.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     binade.tile
func.func @step(%x: tensor<16x32xf32>, %labels: tensor<16xi64>) -> tensor<16x32xf32> {
  %e = binade.exp %x : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %losses, %maximum, %logarithm = binade.cross_entropy %e, %labels {ignore_index = -100 : i64}
    : (tensor<16x32xf32>, tensor<16xi64>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  %loss = binade.reduce_sum %losses {axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<f32>
  %g = binade.broadcast %loss {axes = array<i64>} : (tensor<f32>) -> tensor<16xf32>
  %d = binade.cross_entropy_grad %g, %e, %labels, %maximum, %logarithm {ignore_index = -100 : i64}
    : (tensor<16xf32>, tensor<16x32xf32>, tensor<16xi64>, tensor<16xf32>, tensor<16xf32>) -> tensor<16x32xf32>
  %y = binade.mul %d, %e : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

// A value that is a result of the step is not tiled.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     binade.tile
func.func @step(%h: tensor<16x8xf32>, %w: tensor<8x32xf32>) -> tensor<16x32xf32> {
  %x = binade.matmul %h, %w : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %y = binade.exp %x : (tensor<16x32xf32>) -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

// Constants shrink to the size of a tile; the tile size must divide the rows.

// CHECK-LABEL: func.func @step
// CHECK:         binade.tile 3 slices 2 joins 1(%arg0, %arg1)
// CHECK:           %[[C:.*]] = binade.constant dense<2.000000e+00> : tensor<5x32xf32>
// CHECK:           binade.mul %{{.*}}, %[[C]]
func.func @step(%x: tensor<15x32xf32>, %labels: tensor<15xi64>) -> tensor<15xf32> {
  %two = binade.constant dense<2.0> : tensor<15x32xf32>
  %y = binade.mul %x, %two : (tensor<15x32xf32>, tensor<15x32xf32>) -> tensor<15x32xf32>
  %losses, %maximum, %logarithm = binade.cross_entropy %y, %labels {ignore_index = -100 : i64}
    : (tensor<15x32xf32>, tensor<15xi64>) -> (tensor<15xf32>, tensor<15xf32>, tensor<15xf32>)
  return %losses : tensor<15xf32>
}

// -----

// Values without users are not tiled.

// CHECK-LABEL: func.func @step
// CHECK-NOT:     binade.tile
func.func @step(%x: tensor<16x32xf32>) {
  %y = binade.exp %x : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %z = binade.exp %y : (tensor<16x32xf32>) -> tensor<16x32xf32>
  return
}
