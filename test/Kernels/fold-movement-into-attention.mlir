// RUN: binade-opt %s --split-input-file --binade-fold-movement-into-attention | FileCheck %s

// Query and key are columns of one matmul result, and the user of attention reads
// rows of all heads.
// CHECK-LABEL: @step
// CHECK: binade.slice {{.*}}binade.elided
// CHECK: binade.transpose {{.*}}binade.elided
// CHECK: binade.slice {{.*}}binade.elided
// CHECK: binade.transpose {{.*}}binade.elided
// Not folded: adjacent columns of the values would not be contiguous.
// CHECK-NOT: binade.elided
// CHECK: binade.attention
// CHECK: binade.transpose {{.*}}binade.elided
func.func @step(%qk: tensor<2x64x64xbf16>, %v: tensor<2x2x16x64xbf16>) -> tensor<2x64x2x16xbf16> {
  %q0 = binade.slice %qk {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x64x64xbf16>) -> tensor<2x64x32xbf16>
  %q1 = binade.reshape %q0 : (tensor<2x64x32xbf16>) -> tensor<2x64x2x16xbf16>
  %q = binade.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x64x2x16xbf16>) -> tensor<2x2x64x16xbf16>
  %k0 = binade.slice %qk {offsets = array<i64: 0, 0, 32>, strides = array<i64: 1, 1, 1>} : (tensor<2x64x64xbf16>) -> tensor<2x64x32xbf16>
  %k1 = binade.reshape %k0 : (tensor<2x64x32xbf16>) -> tensor<2x64x2x16xbf16>
  %k = binade.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x64x2x16xbf16>) -> tensor<2x2x64x16xbf16>
  %v0 = binade.transpose %v {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x2x16x64xbf16>) -> tensor<2x2x64x16xbf16>
  %y, %lse = binade.attention %q, %k, %v0 {scale = 0.25 : f64} : (tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>) -> (tensor<2x2x64x16xbf16>, tensor<2x2x64xf32>)
  %t = binade.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x64x16xbf16>) -> tensor<2x64x2x16xbf16>
  return %t : tensor<2x64x2x16xbf16>
}

// -----

// Others read the transpose of the query, through a view, and the result as it
// is; a reshape joins what the slice of the keys left apart.
// CHECK-LABEL: @step
// CHECK-NOT: binade.elided
func.func @step(%x: tensor<2x64x2x16xbf16>, %y: tensor<2x64x32xbf16>) -> (tensor<256x16xbf16>, tensor<2x64x2x16xbf16>, tensor<2x2x64x16xbf16>) {
  %q = binade.transpose %x {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x64x2x16xbf16>) -> tensor<2x2x64x16xbf16>
  %rows = binade.reshape %q : (tensor<2x2x64x16xbf16>) -> tensor<256x16xbf16>
  %half = binade.slice %y {offsets = array<i64: 0, 0, 16>, strides = array<i64: 1, 1, 1>} : (tensor<2x64x32xbf16>) -> tensor<2x64x16xbf16>
  %k0 = binade.reshape %half : (tensor<2x64x16xbf16>) -> tensor<2x2x16x32xbf16>
  %k = binade.reshape %k0 : (tensor<2x2x16x32xbf16>) -> tensor<2x2x32x16xbf16>
  %r, %lse = binade.attention %q, %k, %k {scale = 0.25 : f64} : (tensor<2x2x64x16xbf16>, tensor<2x2x32x16xbf16>, tensor<2x2x32x16xbf16>) -> (tensor<2x2x64x16xbf16>, tensor<2x2x64xf32>)
  %t = binade.transpose %r {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x64x16xbf16>) -> tensor<2x64x2x16xbf16>
  return %rows, %t, %r : tensor<256x16xbf16>, tensor<2x64x2x16xbf16>, tensor<2x2x64x16xbf16>
}

// -----

// The heads of a group share keys. A reshape between attention and the transpose joins
// groups and heads again.
// CHECK-LABEL: @step
// CHECK: binade.transpose %arg0 {{.*}}binade.elided
// CHECK: binade.transpose %arg1 {{.*}}binade.elided
// CHECK: binade.attention
// CHECK: binade.transpose {{.*}}binade.elided
func.func @step(%x: tensor<2x64x6x16xbf16>, %y: tensor<2x64x2x16xbf16>) -> tensor<2x64x6x16xbf16> {
  %q0 = binade.transpose %x {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x64x6x16xbf16>) -> tensor<2x6x64x16xbf16>
  %q = binade.reshape %q0 : (tensor<2x6x64x16xbf16>) -> tensor<2x2x3x64x16xbf16>
  %k0 = binade.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x64x2x16xbf16>) -> tensor<2x2x64x16xbf16>
  %k = binade.reshape %k0 : (tensor<2x2x64x16xbf16>) -> tensor<2x2x1x64x16xbf16>
  %r, %lse = binade.attention %q, %k, %k {scale = 0.25 : f64} : (tensor<2x2x3x64x16xbf16>, tensor<2x2x1x64x16xbf16>, tensor<2x2x1x64x16xbf16>) -> (tensor<2x2x3x64x16xbf16>, tensor<2x2x3x64xf32>)
  %heads = binade.reshape %r : (tensor<2x2x3x64x16xbf16>) -> tensor<2x6x64x16xbf16>
  %t = binade.transpose %heads {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x6x64x16xbf16>) -> tensor<2x64x6x16xbf16>
  return %t : tensor<2x64x6x16xbf16>
}

// -----

// The gradients of query, key and value are written into their concatenation, which a
// matmul and a kernel read. That of other values is not elided.

// CHECK-LABEL: @step
// CHECK: binade.transpose {{.*}}binade.elided
// CHECK: binade.concat {{.*}}binade.elided
// CHECK: binade.concat
// CHECK-NOT: binade.elided
// CHECK: return
func.func @step(%q: tensor<2x2x64x16xbf16>, %k: tensor<2x2x64x16xbf16>, %v: tensor<2x2x64x16xbf16>, %y: tensor<2x2x64x16xbf16>, %lse: tensor<2x2x64xf32>, %dy: tensor<2x2x64x16xbf16>)
    -> (tensor<2x64x96xbf16>, tensor<2x2x64x32xbf16>) {
  %dq, %dk, %dv = binade.attention_grad %dy, %q, %k, %v, %y, %lse {scale = 0.25 : f64}
    : (tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>, tensor<2x2x64xf32>) -> (tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>)
  %0 = binade.transpose %dq {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x64x16xbf16>) -> tensor<2x64x2x16xbf16>
  %1 = binade.reshape %0 : (tensor<2x64x2x16xbf16>) -> tensor<2x64x32xbf16>
  %2 = binade.transpose %dk {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x64x16xbf16>) -> tensor<2x64x2x16xbf16>
  %3 = binade.reshape %2 : (tensor<2x64x2x16xbf16>) -> tensor<2x64x32xbf16>
  %4 = binade.transpose %dv {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x64x16xbf16>) -> tensor<2x64x2x16xbf16>
  %5 = binade.reshape %4 : (tensor<2x64x2x16xbf16>) -> tensor<2x64x32xbf16>
  %6 = binade.concat %1, %3, %5 {axis = 2} : (tensor<2x64x32xbf16>, tensor<2x64x32xbf16>, tensor<2x64x32xbf16>) -> tensor<2x64x96xbf16>
  %7 = binade.concat %q, %k {axis = 3} : (tensor<2x2x64x16xbf16>, tensor<2x2x64x16xbf16>) -> tensor<2x2x64x32xbf16>
  return %6, %7 : tensor<2x64x96xbf16>, tensor<2x2x64x32xbf16>
}
