// RUN: binade-opt %s --binade-recognize-composites | FileCheck %s

// softmax(q k^T scale + mask) v with a mask that hides exactly the later positions. The
// transpose of the keys becomes part of the attention op.

// CHECK-LABEL: func @causal
// CHECK-SAME:    %[[Q:.*]]: tensor<2x3x4xf32>, %[[K:.*]]: tensor<2x3x4xf32>, %[[V:.*]]: tensor<2x3x5xf32>
// CHECK-NEXT:    %[[Y:.*]], %{{.*}} = binade.attention %[[Q]], %[[K]], %[[V]] {causal, scale = 5.000000e-01 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @causal(%q: tensor<2x3x4xf32>, %k: tensor<2x3x4xf32>,
                  %v: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %half = binade.constant dense<0.5> : tensor<2x3x3xf32>
  %mask = binade.constant dense<[[0.0, -1.0e30, 0xFF800000],
                                 [0.0, 0.0, -3.4e38],
                                 [0.0, -0.0, 0.0]]> : tensor<3x3xf32>
  %0 = binade.transpose %k {permutation = array<i64: 0, 2, 1>}
     : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %1 = binade.matmul %q, %0 : (tensor<2x3x4xf32>, tensor<2x4x3xf32>) -> tensor<2x3x3xf32>
  %2 = binade.mul %1, %half : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %3 = binade.broadcast %mask {axes = array<i64: 1, 2>} : (tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %4 = binade.add %2, %3 : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %5 = binade.softmax %4 : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %6 = binade.matmul %5, %v : (tensor<2x3x3xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return %6 : tensor<2x3x5xf32>
}

// A scale on both sides, a selection as mask, and heads that move in the same
// transpose as the keys.

// CHECK-LABEL: func @causal_by_selection
// CHECK-SAME:    %[[Q:.*]]: tensor<1x2x2x4xf32>, %[[K:.*]]: tensor<1x2x2x4xf32>, %[[V:.*]]: tensor<1x2x2x4xf32>
// CHECK-NEXT:    %[[KT:.*]] = binade.transpose %[[K]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT:    binade.attention %[[Q]], %[[KT]], %[[V]] {causal, scale = 5.000000e-01 : f64}
func.func @causal_by_selection(%q: tensor<1x2x2x4xf32>, %k: tensor<1x2x2x4xf32>,
                               %v: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %visible = binade.constant dense<[[[[true, false], [true, true]]]]> : tensor<1x1x2x2xi1>
  %lowest = binade.constant dense<0xFF800000> : tensor<1x2x2x2xf32>
  %two = binade.constant dense<2.0> : tensor<1x2x2x4xf32>
  %quarter = binade.constant dense<0.25> : tensor<1x2x4x2xf32>
  %one = binade.constant dense<1.0> : tensor<1x2x2x2xf32>
  %0 = binade.transpose %k {permutation = array<i64: 0, 2, 3, 1>}
     : (tensor<1x2x2x4xf32>) -> tensor<1x2x4x2xf32>
  %1 = binade.mul %q, %two : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  %2 = binade.mul %0, %quarter : (tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>) -> tensor<1x2x4x2xf32>
  %3 = binade.matmul %1, %2 : (tensor<1x2x2x4xf32>, tensor<1x2x4x2xf32>) -> tensor<1x2x2x2xf32>
  %4 = binade.broadcast %visible {axes = array<i64: 0, 1, 2, 3>}
     : (tensor<1x1x2x2xi1>) -> tensor<1x2x2x2xi1>
  %5 = binade.select %4, %3, %lowest
     : (tensor<1x2x2x2xi1>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %6 = binade.softmax %5 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %7 = binade.matmul %6, %v : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %7 : tensor<1x2x2x4xf32>
}

// CHECK-LABEL: func @without_mask
// CHECK-NEXT:    binade.attention %arg0, %arg1, %arg2 {scale = 1.250000e-01 : f64}
func.func @without_mask(%q: tensor<3x4xf32>, %k: tensor<6x4xf32>,
                        %v: tensor<6x4xf32>) -> tensor<3x4xf32> {
  %eight = binade.constant dense<8.0> : tensor<3x6xf32>
  %0 = binade.matmul %q, %k {transpose_rhs} : (tensor<3x4xf32>, tensor<6x4xf32>) -> tensor<3x6xf32>
  %1 = binade.div %0, %eight : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>
  %2 = binade.softmax %1 : (tensor<3x6xf32>) -> tensor<3x6xf32>
  %3 = binade.matmul %2, %v : (tensor<3x6xf32>, tensor<6x4xf32>) -> tensor<3x4xf32>
  return %3 : tensor<3x4xf32>
}

// Three heads read copies of the keys and values of one.

// CHECK-LABEL: func @grouped
// CHECK-SAME:    %[[Q:.*]]: tensor<2x6x3x4xf32>, %[[K:.*]]: tensor<2x2x3x4xf32>, %[[V:.*]]: tensor<2x2x1x3x5xf32>
// CHECK-NEXT:    %[[QS:.*]] = binade.reshape %[[Q]] : {{.*}} -> tensor<2x2x3x3x4xf32>
// CHECK-NEXT:    %[[KS:.*]] = binade.reshape %[[K]] : {{.*}} -> tensor<2x2x1x3x4xf32>
// CHECK-NEXT:    %[[Y:.*]], %{{.*}} = binade.attention %[[QS]], %[[KS]], %[[V]] {causal, scale = 5.000000e-01 : f64}
// CHECK-NEXT:    %[[R:.*]] = binade.reshape %[[Y]] : {{.*}} -> tensor<2x6x3x5xf32>
// CHECK-NEXT:    return %[[R]]
func.func @grouped(%q: tensor<2x6x3x4xf32>, %k: tensor<2x2x3x4xf32>,
                   %v: tensor<2x2x1x3x5xf32>) -> tensor<2x6x3x5xf32> {
  %0 = binade.broadcast %k {axes = array<i64: 0, 1, 3, 4>}
     : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x3x4xf32>
  %1 = binade.reshape %0 : (tensor<2x2x3x3x4xf32>) -> tensor<2x6x3x4xf32>
  %2 = binade.broadcast %v {axes = array<i64: 0, 1, 2, 3, 4>}
     : (tensor<2x2x1x3x5xf32>) -> tensor<2x2x3x3x5xf32>
  %3 = binade.reshape %2 : (tensor<2x2x3x3x5xf32>) -> tensor<2x6x3x5xf32>
  %y, %lse = binade.attention %q, %1, %3 {causal, scale = 0.5 : f64}
     : (tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x5xf32>)
       -> (tensor<2x6x3x5xf32>, tensor<2x6x3xf32>)
  return %y : tensor<2x6x3x5xf32>
}

// The copies are the first axis of the heads: each group has every second head.

// CHECK-LABEL: func @interleaved_groups
// CHECK:         binade.attention {{.*}} -> (tensor<2x6x3x4xf32>
func.func @interleaved_groups(%q: tensor<2x6x3x4xf32>, %k: tensor<2x2x3x4xf32>)
    -> tensor<2x6x3x4xf32> {
  %0 = binade.broadcast %k {axes = array<i64: 0, 2, 3, 4>}
     : (tensor<2x2x3x4xf32>) -> tensor<2x3x2x3x4xf32>
  %1 = binade.reshape %0 : (tensor<2x3x2x3x4xf32>) -> tensor<2x6x3x4xf32>
  %y, %lse = binade.attention %q, %1, %1 {scale = 0.5 : f64}
     : (tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>)
       -> (tensor<2x6x3x4xf32>, tensor<2x6x3xf32>)
  return %y : tensor<2x6x3x4xf32>
}

//===----------------------------------------------------------------------===//
// Graphs that are almost attention stay unchanged
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func @probabilities_are_used
// CHECK-NOT:     binade.attention
// CHECK:         binade.softmax
func.func @probabilities_are_used(%q: tensor<2x4xf32>, %k: tensor<2x4xf32>,
    %v: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x2xf32>) {
  %0 = binade.matmul %q, %k {transpose_rhs} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  %1 = binade.softmax %0 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = binade.matmul %1, %v : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %2, %1 : tensor<2x4xf32>, tensor<2x2xf32>
}

// -----

// Batch and heads are one axis of the matmuls.

// CHECK-LABEL: func.func @merged(
// CHECK-NEXT:    %[[Y:.*]], %{{.*}} = binade.attention %arg0, %{{.*}}, %arg2 {{.*}}scale = 2.500000e-01
// CHECK-NOT:     binade.softmax
// CHECK:         return %[[Y]]
func.func @merged(%q: tensor<2x3x8x16xf32>, %k: tensor<2x3x8x16xf32>, %v: tensor<2x3x8x16xf32>) -> tensor<2x3x8x16xf32> {
  %scale = binade.constant dense<2.500000e-01> : tensor<2x3x8x8xf32>
  %kt = binade.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x3x8x16xf32>) -> tensor<2x3x16x8xf32>
  %qm = binade.reshape %q : (tensor<2x3x8x16xf32>) -> tensor<6x8x16xf32>
  %km = binade.reshape %kt : (tensor<2x3x16x8xf32>) -> tensor<6x16x8xf32>
  %sm = binade.matmul %qm, %km : (tensor<6x8x16xf32>, tensor<6x16x8xf32>) -> tensor<6x8x8xf32>
  %s = binade.reshape %sm : (tensor<6x8x8xf32>) -> tensor<2x3x8x8xf32>
  %scaled = binade.mul %s, %scale : (tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %p = binade.softmax %scaled : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %pm = binade.reshape %p : (tensor<2x3x8x8xf32>) -> tensor<6x8x8xf32>
  %vm = binade.reshape %v : (tensor<2x3x8x16xf32>) -> tensor<6x8x16xf32>
  %ym = binade.matmul %pm, %vm : (tensor<6x8x8xf32>, tensor<6x8x16xf32>) -> tensor<6x8x16xf32>
  %y = binade.reshape %ym : (tensor<6x8x16xf32>) -> tensor<2x3x8x16xf32>
  return %y : tensor<2x3x8x16xf32>
}

// -----

// The merged axis is split in other sizes, which is another function: the matmul stays.

// CHECK-LABEL: func.func @other_split(
// CHECK:         binade.matmul {{.*}} -> tensor<6x8x8xf32>
func.func @other_split(%q: tensor<2x3x8x16xf32>, %k: tensor<3x2x16x8xf32>) -> tensor<2x3x8x8xf32> {
  %qm = binade.reshape %q : (tensor<2x3x8x16xf32>) -> tensor<6x8x16xf32>
  %km = binade.reshape %k : (tensor<3x2x16x8xf32>) -> tensor<6x16x8xf32>
  %sm = binade.matmul %qm, %km : (tensor<6x8x16xf32>, tensor<6x16x8xf32>) -> tensor<6x8x8xf32>
  %s = binade.reshape %sm : (tensor<6x8x8xf32>) -> tensor<2x3x8x8xf32>
  return %s : tensor<2x3x8x8xf32>
}
