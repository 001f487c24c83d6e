// RUN: binade-opt %s -split-input-file --binade-recompute | FileCheck %s

// The gelu is recomputed, through the view, before the first op that reads it. Its
// operand is saved, which the backward pass reads anyway. A matmul is not recomputed,
// nor is an op whose operand would have to be saved for it.

// CHECK-LABEL: func.func @step
// CHECK:         %[[H:.*]] = binade.matmul %arg0, %arg1
// CHECK:         %[[SH:.*]] = binade.save %[[H]]
// CHECK:         %[[G:.*]] = binade.gelu %[[H]]
// CHECK-NOT:     binade.save
// CHECK:         %[[R:.*]] = binade.reshape %[[G]]
// CHECK:         %[[E:.*]] = binade.exp %[[R]]
// CHECK:         %[[T:.*]] = binade.tanh %[[E]]
// CHECK:         %[[ST:.*]] = binade.save %[[T]]
// CHECK:         %[[DG:.*]] = binade.gelu_grad %{{.*}}, %[[SH]] {binade.phase = #binade.phase<backward>}
// CHECK:         %[[G2:.*]] = binade.gelu %[[SH]] {binade.phase = #binade.phase<backward>}
// CHECK:         %[[R2:.*]] = binade.reshape %[[G2]] {binade.phase = #binade.phase<backward>}
// CHECK:         %[[M:.*]] = binade.mul %[[R2]], %[[ST]]
// CHECK:         return %[[T]], %[[DG]], %[[M]]
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>)
    -> (tensor<24xf32>, tensor<4x6xf32>, tensor<24xf32>) {
  %h = binade.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %sh = binade.save %h : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %g = binade.gelu %h : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %r = binade.reshape %g : (tensor<4x6xf32>) -> tensor<24xf32>
  %sr = binade.save %r : (tensor<24xf32>) -> tensor<24xf32>
  %e = binade.exp %r : (tensor<24xf32>) -> tensor<24xf32>
  %t = binade.tanh %e : (tensor<24xf32>) -> tensor<24xf32>
  %st = binade.save %t : (tensor<24xf32>) -> tensor<24xf32>
  %dg = binade.gelu_grad %sh, %sh {binade.phase = #binade.phase<backward>}
    : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %m = binade.mul %sr, %st {binade.phase = #binade.phase<backward>}
    : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  return %t, %dg, %m : tensor<24xf32>, tensor<4x6xf32>, tensor<24xf32>
}

// -----

// Of rows of one number the numbers are kept, and then no product of those rows with
// what is kept, too; a parameter is there anyway.

// CHECK-LABEL: func.func @step
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[G:[a-z0-9]+]]: tensor<8xf32>
// CHECK:         %[[A:.*]] = binade.softmax
// CHECK:         %[[SA:.*]] = binade.save %[[A]]
// CHECK:         %[[R:.*]] = binade.reduce_sum
// CHECK:         %[[SR:.*]] = binade.save %[[R]] : (tensor<4xf32>)
// CHECK-NOT:     binade.save
// CHECK:         %[[BR:.*]] = binade.broadcast %[[SR]] {{.*}}backward
// CHECK:         %[[P:.*]] = binade.mul %[[SA]], %[[BR]] {{.*}}backward
// CHECK:         %[[BG:.*]] = binade.broadcast %[[G]] {{.*}}backward
// CHECK:         %[[D:.*]] = binade.mul %[[P]], %[[BG]] {{.*}}backward
// CHECK:         %[[BR2:.*]] = binade.broadcast %[[SR]] {{.*}}backward
// CHECK:         binade.mul %[[D]], %[[BR2]]
func.func @step(%x: tensor<4x8xf32>, %g: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = binade.softmax %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sa = binade.save %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = binade.reduce_sum %a {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %br = binade.broadcast %r {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %sr = binade.save %br : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = binade.mul %a, %br : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %sp = binade.save %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %bg = binade.broadcast %g {axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %sg = binade.save %bg : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = binade.mul %p, %bg : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = binade.mul %sp, %sg {binade.phase = #binade.phase<backward>}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = binade.mul %d, %sr {binade.phase = #binade.phase<backward>}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = binade.mul %e, %sa {binade.phase = #binade.phase<backward>}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y, %f : tensor<4x8xf32>, tensor<4x8xf32>
}
