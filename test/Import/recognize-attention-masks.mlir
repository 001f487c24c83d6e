// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// Masks and relative positions that are operands, soft caps and dropout.

// The mask of a batch is broadcast by the op.

// CHECK-LABEL: func @padding(
// CHECK-NEXT:    %[[M:.*]] = binade.reshape %arg3 : (tensor<2x5xf32>) -> tensor<2x1x1x5xf32>
// CHECK-NEXT:    binade.attention %arg0, %arg1, %arg2 biases(%[[M]]) {scale = 1.000000e+00 : f64}
func.func @padding(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %m: tensor<2x5xf32>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %b = binade.broadcast %m {axes = array<i64: 0, 3>} : (tensor<2x5xf32>) -> tensor<2x3x5x5xf32>
  %t = binade.add %s, %b : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %t : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// CHECK-LABEL: func @boolean(
// CHECK-NEXT:    %[[M:.*]] = binade.reshape %arg3 : (tensor<2x5xi1>) -> tensor<2x1x1x5xi1>
// CHECK-NEXT:    binade.attention %arg0, %arg1, %arg2 mask(%[[M]]) {scale = 1.000000e+00 : f64}
func.func @boolean(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %m: tensor<2x5xi1>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %n = binade.constant dense<0xFF800000> : tensor<2x3x5x5xf32>
  %b = binade.broadcast %m {axes = array<i64: 0, 3>} : (tensor<2x5xi1>) -> tensor<2x3x5x5xi1>
  %t = binade.select %b, %s, %n : (tensor<2x3x5x5xi1>, tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %t : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// A summand that is 0 or minus infinity is a mask.

// CHECK-LABEL: func @selected(
// CHECK:         %[[C:.*]] = binade.select
// CHECK:         %[[M:.*]] = binade.compare %[[C]], %{{.*}} {comparison = #binade.comparison<equal>}
// CHECK-NEXT:    binade.attention %arg0, %arg1, %arg2 mask(%[[M]]) {scale = 1.000000e+00 : f64}
func.func @selected(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %m: tensor<2x1x1x5xi1>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %z = binade.constant dense<0.0> : tensor<2x1x1x5xf32>
  %n = binade.constant dense<0xFF800000> : tensor<2x1x1x5xf32>
  %c = binade.select %m, %z, %n : (tensor<2x1x1x5xi1>, tensor<2x1x1x5xf32>, tensor<2x1x1x5xf32>) -> tensor<2x1x1x5xf32>
  %b = binade.broadcast %c {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x1x5xf32>) -> tensor<2x3x5x5xf32>
  %t = binade.add %s, %b : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %t : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// The sum of relative positions and a mask would be as large as the scores.

// CHECK-LABEL: func @relative(
// CHECK-DAG:     %[[R:.*]] = binade.reshape %arg3 : {{.*}} -> tensor<1x3x5x5xf32>
// CHECK-DAG:     %[[M:.*]] = binade.reshape %arg4 : {{.*}} -> tensor<2x1x1x5xf32>
// CHECK:         binade.attention %arg0, %arg1, %arg2 biases(%[[R]], %[[M]]) {scale = 1.000000e+00 : f64}
func.func @relative(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %r: tensor<3x5x5xf32>, %m: tensor<2x5xf32>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %b = binade.broadcast %r {axes = array<i64: 1, 2, 3>} : (tensor<3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %c = binade.broadcast %m {axes = array<i64: 0, 3>} : (tensor<2x5xf32>) -> tensor<2x3x5x5xf32>
  %d = binade.add %b, %c : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %t = binade.add %s, %d : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %t : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// CHECK-LABEL: func @causal_and_padding(
// CHECK:         binade.attention %arg0, %arg1, %arg2 biases(%{{.*}}) {causal, scale = 1.000000e+00 : f64}
func.func @causal_and_padding(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %m: tensor<2x5xf32>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %cc = binade.constant dense<[[[[true, false, false, false, false], [true, true, false, false, false], [true, true, true, false, false], [true, true, true, true, false], [true, true, true, true, true]]]]> : tensor<1x1x5x5xi1>
  %n = binade.constant dense<0xFF800000> : tensor<2x3x5x5xf32>
  %cb = binade.broadcast %cc {axes = array<i64: 0, 1, 2, 3>} : (tensor<1x1x5x5xi1>) -> tensor<2x3x5x5xi1>
  %t = binade.select %cb, %s, %n : (tensor<2x3x5x5xi1>, tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %b = binade.broadcast %m {axes = array<i64: 0, 3>} : (tensor<2x5xf32>) -> tensor<2x3x5x5xf32>
  %u = binade.add %t, %b : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %u : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// The sum of two finite masks is not the value that the op fills in: in a row of masks, the
// probabilities would be different.

// CHECK-LABEL: func @finite_and_padding(
// CHECK-NOT:     binade.attention
// CHECK:         binade.softmax
func.func @finite_and_padding(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %m: tensor<2x5xf32>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %cc = binade.constant dense<[[[[true, false, false, false, false], [true, true, false, false, false], [true, true, true, false, false], [true, true, true, true, false], [true, true, true, true, true]]]]> : tensor<1x1x5x5xi1>
  %n = binade.constant dense<-3.0e38> : tensor<2x3x5x5xf32>
  %cb = binade.broadcast %cc {axes = array<i64: 0, 1, 2, 3>} : (tensor<1x1x5x5xi1>) -> tensor<2x3x5x5xi1>
  %t = binade.select %cb, %s, %n : (tensor<2x3x5x5xi1>, tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %b = binade.broadcast %m {axes = array<i64: 0, 3>} : (tensor<2x5xf32>) -> tensor<2x3x5x5xf32>
  %u = binade.add %t, %b : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %u : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// CHECK-LABEL: func @capped(
// CHECK:         binade.attention %arg0, %arg1, %arg2 {scale = 1.000000e+00 : f64, softcap = 3.000000e+01 : f64}
func.func @capped(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %c = binade.constant dense<30.0> : tensor<2x3x5x5xf32>
  %a = binade.div %s, %c : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %b = binade.tanh %a : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %t = binade.mul %b, %c : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %t : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// CHECK-LABEL: func @capped_otherwise(
// CHECK-NOT:     binade.attention
// CHECK:         binade.softmax
func.func @capped_otherwise(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %c = binade.constant dense<30.0> : tensor<2x3x5x5xf32>
  %d = binade.constant dense<31.0> : tensor<2x3x5x5xf32>
  %a = binade.div %s, %d : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %b = binade.tanh %a : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %t = binade.mul %b, %c : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %t : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// CHECK-LABEL: func @dropping(
// CHECK-NEXT:    binade.attention %arg0, %arg1, %arg2 rng(%arg3) {ratio = 1.000000e-01 : f64, scale = 1.000000e+00 : f64, stream = 3 : i64}
func.func @dropping(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %r: tensor<2xi64>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %s : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %d = binade.dropout %p, %r {ratio = 0.1, stream = 3 : i64} : (tensor<2x3x5x5xf32>, tensor<2xi64>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %d, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// Exporters replace the probabilities of queries without visible keys.

// CHECK-LABEL: func @hidden_rows(
// CHECK:         binade.attention %arg0, %arg1, %arg2 rng(%arg3) {ratio = 1.000000e-01 : f64, scale = 1.000000e+00 : f64, stream = 3 : i64, zero_hidden, zero_nan}
func.func @hidden_rows(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %r: tensor<2xi64>) -> tensor<2x3x5x8xf32> {
  %s = binade.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
  %p = binade.softmax %s : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %z = binade.constant dense<0.0> : tensor<2x3x5x5xf32>
  %e = binade.compare %p, %p {comparison = #binade.comparison<equal>} : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xi1>
  %n = binade.not %e : (tensor<2x3x5x5xi1>) -> tensor<2x3x5x5xi1>
  %h = binade.select %n, %z, %p : (tensor<2x3x5x5xi1>, tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %d = binade.dropout %h, %r {ratio = 0.1, stream = 3 : i64} : (tensor<2x3x5x5xf32>, tensor<2xi64>) -> tensor<2x3x5x5xf32>
  %y = binade.matmul %d, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %y : tensor<2x3x5x8xf32>
}

// Biases of shared keys have the axes of the groups.

// CHECK-LABEL: func @grouped(
// CHECK-DAG:     %[[B:.*]] = binade.reshape %arg2 : {{.*}} -> tensor<1x2x3x3x3xf32>
// CHECK-DAG:     %[[M:.*]] = binade.reshape %arg3 : {{.*}} -> tensor<2x1x1x1x3xi1>
// CHECK:         binade.attention %{{.*}}, %{{.*}}, %{{.*}} biases(%[[B]]) mask(%[[M]])
// CHECK-SAME:    -> (tensor<2x2x3x3x4xf32>, tensor<2x2x3x3xf32>)
func.func @grouped(%q: tensor<2x6x3x4xf32>, %k: tensor<2x2x3x4xf32>, %b: tensor<1x6x3x3xf32>,
                   %m: tensor<2x1x1x3xi1>) -> tensor<2x6x3x4xf32> {
  %0 = binade.broadcast %k {axes = array<i64: 0, 1, 3, 4>}
     : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x3x4xf32>
  %1 = binade.reshape %0 : (tensor<2x2x3x3x4xf32>) -> tensor<2x6x3x4xf32>
  %y, %lse = binade.attention %q, %1, %1 biases(%b) mask(%m) {scale = 0.5 : f64}
     : (tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<1x6x3x3xf32>,
        tensor<2x1x1x3xi1>) -> (tensor<2x6x3x4xf32>, tensor<2x6x3xf32>)
  return %y : tensor<2x6x3x4xf32>
}

//===----------------------------------------------------------------------===//
// Constants that are not causal
//===----------------------------------------------------------------------===//

// The mask adds to a visible score.

// CHECK-LABEL: func @mask_with_a_bias
// CHECK:         binade.attention %arg0, %arg1, %arg2 biases(%{{.*}}) {scale = 1.000000e+00 : f64}
func.func @mask_with_a_bias(%q: tensor<2x4xf32>, %k: tensor<2x4xf32>,
                            %v: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %mask = binade.constant dense<[[0.0, -1.0e30], [0.1, 0.0]]> : tensor<2x2xf32>
  %0 = binade.matmul %q, %k {transpose_rhs} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  %1 = binade.add %0, %mask : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = binade.softmax %1 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = binade.matmul %2, %v : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -10000 hides in practice, but is not proven to: it is added.

// CHECK-LABEL: func @mask_that_hides_a_little
// CHECK:         binade.attention %arg0, %arg1, %arg2 biases(%{{.*}}) {scale = 1.000000e+00 : f64}
func.func @mask_that_hides_a_little(%q: tensor<2x4xf32>, %k: tensor<2x4xf32>,
                                    %v: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %mask = binade.constant dense<[[0.0, -1.0e4], [0.0, 0.0]]> : tensor<2x2xf32>
  %0 = binade.matmul %q, %k {transpose_rhs} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  %1 = binade.add %0, %mask : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = binade.softmax %1 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = binade.matmul %2, %v : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// The mask of the second sequence hides one position more: not causal for all.

// CHECK-LABEL: func @mask_of_one_sequence
// CHECK:         binade.attention %arg0, %arg1, %arg2 biases(%{{.*}}) {scale = 1.000000e+00 : f64}
// CHECK-SAME:    tensor<2x2x2xf32>)
func.func @mask_of_one_sequence(%q: tensor<2x2x4xf32>, %k: tensor<2x2x4xf32>,
                                %v: tensor<2x2x4xf32>) -> tensor<2x2x4xf32> {
  %mask = binade.constant dense<[[[0.0, -1.0e30], [0.0, 0.0]],
                                 [[0.0, -1.0e30], [-1.0e30, 0.0]]]> : tensor<2x2x2xf32>
  %0 = binade.matmul %q, %k {transpose_rhs}
     : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x2xf32>
  %1 = binade.add %0, %mask : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %2 = binade.softmax %1 : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %3 = binade.matmul %2, %v : (tensor<2x2x2xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  return %3 : tensor<2x2x4xf32>
}

// The mask counts from the other end. It is a finite number, and remains one.

// CHECK-LABEL: func @mask_of_earlier_positions
// CHECK:         %[[VISIBLE:.*]] = binade.not
// CHECK:         binade.attention %arg0, %arg1, %arg2 mask(%[[VISIBLE]]) {fill = {{.*}}, scale = 1.000000e+00 : f64}
func.func @mask_of_earlier_positions(%q: tensor<2x4xf32>, %k: tensor<2x4xf32>,
                                     %v: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %hidden = binade.constant dense<[[false, false], [true, false]]> : tensor<2x2xi1>
  %lowest = binade.constant dense<-1.0e38> : tensor<2x2xf32>
  %0 = binade.matmul %q, %k {transpose_rhs} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  %1 = binade.select %hidden, %lowest, %0
     : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = binade.softmax %1 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = binade.matmul %2, %v : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}
