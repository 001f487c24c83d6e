// RUN: binade-opt %s --split-input-file --binade-deduplicate-saves | FileCheck %s

// Two halves of one value are saved: the value is kept, and sliced where the halves are read.

// CHECK-LABEL: func.func @step
// CHECK:         %[[E:.*]] = binade.exp %arg0
// CHECK-NEXT:    %[[S:.*]] = binade.save %[[E]]
// CHECK-NEXT:    %[[L:.*]] = binade.slice %[[E]] {offsets = array<i64: 0, 0>
// CHECK-NEXT:    %[[R:.*]] = binade.slice %[[E]] {offsets = array<i64: 0, 4>
// CHECK-NEXT:    %[[M:.*]] = binade.mul %[[L]], %[[R]]
// CHECK-NEXT:    %[[RB:.*]] = binade.slice %[[S]] {binade.phase = #binade.phase<backward>, offsets = array<i64: 0, 4>
// CHECK-NEXT:    %[[DL:.*]] = binade.mul %[[M]], %[[RB]]
// CHECK-NEXT:    %[[LB:.*]] = binade.slice %[[S]] {binade.phase = #binade.phase<backward>, offsets = array<i64: 0, 0>
// CHECK-NEXT:    %[[DR:.*]] = binade.mul %[[M]], %[[LB]]
// CHECK-NOT:     binade.save
func.func @step(%x: tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %e = binade.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = binade.slice %e {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<2x8xf32>) -> tensor<2x4xf32>
  %sl = binade.save %l : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = binade.slice %e {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>}
    : (tensor<2x8xf32>) -> tensor<2x4xf32>
  %sr = binade.save %r : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = binade.mul %l, %r : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %dl = binade.mul %m, %sr {binade.phase = #binade.phase<backward>}
    : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %dr = binade.mul %m, %sl {binade.phase = #binade.phase<backward>}
    : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %dl, %dr : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// A value and its transposed copy are both saved: only the copy is kept, which its user
// reads directly. The other user reads it transposed back.

// CHECK-LABEL: func.func @step
// CHECK:         %[[E:.*]] = binade.exp %arg0
// CHECK-NEXT:    %[[T:.*]] = binade.transpose %[[E]]
// CHECK-NEXT:    %[[R:.*]] = binade.reshape %[[T]]
// CHECK-NEXT:    %[[S:.*]] = binade.save %[[R]]
// CHECK-NEXT:    %[[RB:.*]] = binade.reshape %[[S]] {binade.phase = #binade.phase<backward>} : (tensor<24xf32>) -> tensor<4x3x2xf32>
// CHECK-NEXT:    %[[TB:.*]] = binade.transpose %[[RB]] {binade.phase = #binade.phase<backward>, permutation = array<i64: 1, 2, 0>}
// CHECK-NEXT:    %[[A:.*]] = binade.exp %[[TB]]
// CHECK-NEXT:    %[[B:.*]] = binade.exp %[[S]]
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @step(%x: tensor<3x2x4xf32>) -> (tensor<3x2x4xf32>, tensor<24xf32>) {
  %e = binade.exp %x : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %se = binade.save %e : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %t = binade.transpose %e {permutation = array<i64: 2, 0, 1>}
    : (tensor<3x2x4xf32>) -> tensor<4x3x2xf32>
  %r = binade.reshape %t : (tensor<4x3x2xf32>) -> tensor<24xf32>
  %sr = binade.save %r : (tensor<24xf32>) -> tensor<24xf32>
  %a = binade.exp %se {binade.phase = #binade.phase<backward>}
    : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %b = binade.exp %sr {binade.phase = #binade.phase<backward>}
    : (tensor<24xf32>) -> tensor<24xf32>
  return %a, %b : tensor<3x2x4xf32>, tensor<24xf32>
}

// -----

// A single slice, smaller than the value, is saved itself.

// CHECK-LABEL: func.func @step
// CHECK:         %[[L:.*]] = binade.slice
// CHECK-NEXT:    binade.save %[[L]]
// CHECK-NOT:     binade.save
func.func @step(%x: tensor<2x8xf32>) -> tensor<2x3xf32> {
  %e = binade.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = binade.slice %e {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<2x8xf32>) -> tensor<2x3xf32>
  %sl = binade.save %l : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = binade.exp %sl {binade.phase = #binade.phase<backward>}
    : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// A save of a saved value is not changed.

// CHECK-LABEL: func.func @step
// CHECK:         %[[T:.*]] = binade.transpose %arg0 {binade.phase = #binade.phase<backward>
// CHECK-NEXT:    %[[U:.*]] = binade.transpose %[[T]]
// CHECK-NEXT:    %[[S:.*]] = binade.save %[[U]]
// CHECK-NEXT:    binade.exp %[[S]]
func.func @step(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %t = binade.transpose %x {permutation = array<i64: 1, 0>}
    : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %s = binade.save %t : (tensor<8x2xf32>) -> tensor<8x2xf32>
  %u = binade.transpose %s {permutation = array<i64: 1, 0>}
    : (tensor<8x2xf32>) -> tensor<2x8xf32>
  %v = binade.save %u : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %y = binade.exp %v {binade.phase = #binade.phase<backward>}
    : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// A value that is read before its copy is saved cannot be computed from the copy.

// CHECK-LABEL: func.func @step
// CHECK:         %[[SE:.*]] = binade.save
// CHECK-NEXT:    binade.neg %[[SE]]
// CHECK:         binade.transpose
// CHECK-NEXT:    binade.save
func.func @step(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<8x2xf32>) {
  %e = binade.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %se = binade.save %e : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %n = binade.neg %se : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %t = binade.transpose %e {permutation = array<i64: 1, 0>}
    : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %st = binade.save %t : (tensor<8x2xf32>) -> tensor<8x2xf32>
  %b = binade.exp %st {binade.phase = #binade.phase<backward>}
    : (tensor<8x2xf32>) -> tensor<8x2xf32>
  return %n, %b : tensor<2x8xf32>, tensor<8x2xf32>
}
