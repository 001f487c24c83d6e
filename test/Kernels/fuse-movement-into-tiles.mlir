// RUN: binade-opt %s --split-input-file --binade-fuse-movement-into-tiles | FileCheck %s

// Both halves of the product come from one value, of which the tile gets a piece; the
// two results are joined inside. The transpose of the first axis stays where it is.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[T:.*]] = binade.transpose %arg0
// CHECK-NEXT:    %[[Y:.*]] = binade.tile 4 slices 1 joins 1(%[[T]]) {
// CHECK-NEXT:    ^bb0(%[[P:.*]]: tensor<1x8xf32>):
// CHECK-DAG:       %[[L:.*]] = binade.slice %[[P]] {offsets = array<i64: 0, 0>, {{.*}} (tensor<1x8xf32>) -> tensor<1x3xf32>
// CHECK-DAG:       %[[R:.*]] = binade.slice %[[P]] {offsets = array<i64: 0, 3>, {{.*}} (tensor<1x8xf32>) -> tensor<1x3xf32>
// CHECK:           %[[M:.*]] = binade.mul %[[L]], %[[R]]
// CHECK-NEXT:      %[[A:.*]] = binade.add %[[L]], %[[R]]
// CHECK-NEXT:      %[[C:.*]] = binade.concat %[[A]], %[[M]] {{.*}} -> tensor<1x6xf32>
// CHECK-NEXT:      %[[V:.*]] = binade.reshape %[[C]] : (tensor<1x6xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:      binade.yield %[[V]] : tensor<2x3xf32>
// CHECK:         return %[[Y]] : tensor<8x3xf32>
func.func @step(%x: tensor<8x4xf32>) -> tensor<8x3xf32> {
  %t = binade.transpose %x {permutation = array<i64: 1, 0>}
    : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %l = binade.slice %t {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %r = binade.slice %t {offsets = array<i64: 0, 3>, strides = array<i64: 1, 1>}
    : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %m, %a = binade.tile 4 slices 2 joins 2 (%l, %r) {
  ^bb0(%pl: tensor<1x3xf32>, %pr: tensor<1x3xf32>):
    %0 = binade.mul %pl, %pr : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
    %1 = binade.add %pl, %pr : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
    binade.yield %0, %1 : tensor<1x3xf32>, tensor<1x3xf32>
  } : (tensor<4x3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
  %c = binade.concat %a, %m {axis = 1 : i64}
    : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
  %v = binade.reshape %c : (tensor<4x6xf32>) -> tensor<8x3xf32>
  return %v : tensor<8x3xf32>
}

// -----

// What others read too stays outside, on both sides.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[L:.*]] = binade.slice %arg0
// CHECK-NEXT:    %[[M:.*]] = binade.tile 4 slices 1 joins 1(%[[L]]) {
// CHECK:         %[[T:.*]] = binade.reshape %[[M]]
// CHECK-NEXT:    return %[[L]], %[[M]], %[[T]]
func.func @step(%x: tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3x1xf32>) {
  %l = binade.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %m = binade.tile 4 slices 1 joins 1 (%l) {
  ^bb0(%p: tensor<1x3xf32>):
    %0 = binade.exp %p : (tensor<1x3xf32>) -> tensor<1x3xf32>
    binade.yield %0 : tensor<1x3xf32>
  } : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %t = binade.reshape %m : (tensor<4x3xf32>) -> tensor<4x3x1xf32>
  return %l, %m, %t : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3x1xf32>
}

// -----

// Both bodies get the slice, which only they read, and the concatenation of the results.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    binade.tile 2 of 3 remainder 1 slices 1 joins 1(%arg0) {
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<3x8xf32>):
// CHECK-NEXT:      binade.slice {{.*}} -> tensor<3x4xf32>
// CHECK-NEXT:      binade.exp
// CHECK-NEXT:      binade.neg
// CHECK-NEXT:      binade.concat {{.*}} -> tensor<3x8xf32>
// CHECK:         } remainder {
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<1x8xf32>):
// CHECK-NEXT:      binade.slice {{.*}} -> tensor<1x4xf32>
// CHECK-NEXT:      binade.exp
// CHECK-NEXT:      binade.neg
// CHECK-NEXT:      binade.concat {{.*}} -> tensor<1x8xf32>
// CHECK:         } : (tensor<7x8xf32>) -> tensor<7x8xf32>
func.func @step(%x: tensor<7x8xf32>) -> tensor<7x8xf32> {
  %l = binade.slice %x {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>}
    : (tensor<7x8xf32>) -> tensor<7x4xf32>
  %e, %n = binade.tile 2 of 3 remainder 1 slices 1 joins 2 (%l) {
  ^bb0(%p: tensor<3x4xf32>):
    %0 = binade.exp %p : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %1 = binade.neg %p : (tensor<3x4xf32>) -> tensor<3x4xf32>
    binade.yield %0, %1 : tensor<3x4xf32>, tensor<3x4xf32>
  } remainder {
  ^bb0(%p: tensor<1x4xf32>):
    %0 = binade.exp %p : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %1 = binade.neg %p : (tensor<1x4xf32>) -> tensor<1x4xf32>
    binade.yield %0, %1 : tensor<1x4xf32>, tensor<1x4xf32>
  } : (tensor<7x4xf32>) -> (tensor<7x4xf32>, tensor<7x4xf32>)
  %c = binade.concat %e, %n {axis = 1 : i64}
    : (tensor<7x4xf32>, tensor<7x4xf32>) -> tensor<7x8xf32>
  return %c : tensor<7x8xf32>
}
