// RUN: binade-opt %s --pass-pipeline='builtin.module(func.func(binade-move-casts))' | FileCheck %s

#d = #binade.precision<compute = f32, result = f32, rule = "class clear">
#n = #binade.precision<compute = bf16, result = bf16, rule = "class clear">

// Half the bytes are transposed.
// CHECK-LABEL: func.func @narrowing_goes_up
func.func @narrowing_goes_up(%x: tensor<8x64xf32>) -> tensor<64x8xbf16> {
  // CHECK-NEXT: %[[Y:.*]] = binade.cast %arg0 : (tensor<8x64xf32>) -> tensor<8x64xbf16>
  // CHECK-NEXT: %[[Z:.*]] = binade.transpose %[[Y]] {{.*}} : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
  // CHECK-NEXT: return %[[Z]]
  %0 = binade.transpose %x {permutation = array<i64: 1, 0>, precision = #d} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %1 = binade.cast %0 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  return %1 : tensor<64x8xbf16>
}

// CHECK-LABEL: func.func @widening_goes_down
func.func @widening_goes_down(%x: tensor<8x64xbf16>) -> tensor<64x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = binade.transpose %arg0
  // CHECK-NEXT: %[[Z:.*]] = binade.cast %[[Y]] : (tensor<64x8xbf16>) -> tensor<64x8xf32>
  // CHECK-NEXT: return %[[Z]]
  %0 = binade.cast %x : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %1 = binade.transpose %0 {permutation = array<i64: 1, 0>, precision = #d} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  return %1 : tensor<64x8xf32>
}

// Of a hundred rows one is used: only that row is cast.
// CHECK-LABEL: func.func @after_a_slice
func.func @after_a_slice(%x: tensor<100x64xf32>, %y: tensor<100x64xf32>) -> (tensor<1x64xbf16>, tensor<1x64xbf16>) {
  // CHECK: %[[A:.*]] = binade.slice %arg0
  // CHECK: binade.cast %[[A]] : (tensor<1x64xf32>) -> tensor<1x64xbf16>
  // CHECK: %[[B:.*]] = binade.slice %arg1
  // CHECK: binade.cast %[[B]] {saturate} : (tensor<1x64xf32>) -> tensor<1x64xbf16>
  %0 = binade.slice %x {offsets = array<i64: 3, 0>, strides = array<i64: 1, 1>, precision = #d} : (tensor<100x64xf32>) -> tensor<1x64xf32>
  %1 = binade.cast %0 : (tensor<1x64xf32>) -> tensor<1x64xbf16>
  %2 = binade.cast %y {saturate} : (tensor<100x64xf32>) -> tensor<100x64xbf16>
  %3 = binade.slice %2 {offsets = array<i64: 3, 0>, strides = array<i64: 1, 1>, precision = #n} : (tensor<100x64xbf16>) -> tensor<1x64xbf16>
  return %1, %3 : tensor<1x64xbf16>, tensor<1x64xbf16>
}

// The operand of a broadcast is cast before it, for widening and narrowing casts.
// CHECK-LABEL: func.func @before_a_broadcast
func.func @before_a_broadcast(%x: tensor<64xf32>) -> tensor<100x64xbf16> {
  // CHECK-NEXT: %[[Y:.*]] = binade.cast %arg0 : (tensor<64xf32>) -> tensor<64xbf16>
  // CHECK-NEXT: binade.broadcast %[[Y]]
  // CHECK-NEXT: return
  %0 = binade.broadcast %x {axes = array<i64: 1>, precision = #d} : (tensor<64xf32>) -> tensor<100x64xf32>
  %1 = binade.cast %0 : (tensor<100x64xf32>) -> tensor<100x64xbf16>
  return %1 : tensor<100x64xbf16>
}

// Past a view and a transpose, to the only cast of the value.
// CHECK-LABEL: func.func @several_movers
func.func @several_movers(%x: tensor<8x64xf32>) -> (tensor<8x8x8xbf16>, tensor<64x8xbf16>) {
  // CHECK-NEXT: %[[Y:.*]] = binade.cast %arg0
  // CHECK-NOT: binade.cast
  %0 = binade.transpose %x {permutation = array<i64: 1, 0>, precision = #d} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %1 = binade.reshape %0 {precision = #d} : (tensor<64x8xf32>) -> tensor<8x8x8xf32>
  %2 = binade.cast %1 : (tensor<8x8x8xf32>) -> tensor<8x8x8xbf16>
  %3 = binade.transpose %x {permutation = array<i64: 1, 0>, precision = #d} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %4 = binade.cast %3 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  return %2, %4 : tensor<8x8x8xbf16>, tensor<64x8xbf16>
}

// Three slices that make up the whole share one cast of the whole.
// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<8x12xf32>) -> (tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>) {
  // CHECK-NEXT: binade.cast %arg0
  // CHECK-NOT: binade.cast
  %0 = binade.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>, precision = #d} : (tensor<8x12xf32>) -> tensor<8x4xf32>
  %1 = binade.slice %x {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>, precision = #d} : (tensor<8x12xf32>) -> tensor<8x4xf32>
  %2 = binade.slice %x {offsets = array<i64: 0, 8>, strides = array<i64: 1, 1>, precision = #d} : (tensor<8x12xf32>) -> tensor<8x4xf32>
  %3 = binade.cast %0 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %4 = binade.cast %1 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %5 = binade.cast %2 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  return %3, %4, %5 : tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>
}

// A cast does not move across arithmetic, ops with a second user in f32, pins and ops
// without a decision. The decision of an op that it moves across changes with it.
// CHECK-LABEL: func.func @stays
func.func @stays(%x: tensor<8x64xf32>) -> (tensor<64x8xbf16>, tensor<64x8xf32>, tensor<8x64xbf16>, tensor<64x8xbf16>, tensor<64x8xbf16>) {
  // CHECK: %[[A:.*]] = binade.transpose %arg0 {{.*}} : (tensor<8x64xf32>)
  // CHECK: binade.cast %[[A]]
  // CHECK: %[[B:.*]] = binade.relu %arg0
  // CHECK: binade.cast %[[B]]
  // CHECK: binade.transpose %arg0 {permutation = array<i64: 1, 0>, precision = #binade.precision<compute = f32, result = f32>}
  // CHECK: binade.transpose {{.*}} precision = #binade.precision<compute = bf16, result = bf16, rule = "class clear">
  %0 = binade.transpose %x {permutation = array<i64: 1, 0>, precision = #d} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %1 = binade.cast %0 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  %2 = binade.relu %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %3 = binade.cast %2 : (tensor<8x64xf32>) -> tensor<8x64xbf16>
  %4 = binade.transpose %x {permutation = array<i64: 1, 0>, precision = #binade.precision<compute = f32, result = f32>} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %5 = binade.cast %4 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  %6 = binade.transpose %x {permutation = array<i64: 1, 0>, precision = #binade.precision<compute = f32, result = f32, rule = "class clear">} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %7 = binade.cast %6 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  return %1, %0, %3, %5, %7 : tensor<64x8xbf16>, tensor<64x8xf32>, tensor<8x64xbf16>, tensor<64x8xbf16>, tensor<64x8xbf16>
}

// CHECK-LABEL: func.func @undecided
func.func @undecided(%x: tensor<8x64xf32>) -> tensor<64x8xbf16> {
  // CHECK-NEXT: binade.transpose %arg0
  // CHECK-NEXT: binade.cast
  %0 = binade.transpose %x {permutation = array<i64: 1, 0>} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %1 = binade.cast %0 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  return %1 : tensor<64x8xbf16>
}

// A value with a rule for its saved format is saved in that format.
// CHECK-LABEL: func.func @saved_by_rule
func.func @saved_by_rule(%x: tensor<8x64xf32>) -> tensor<64x8xbf16> {
  // CHECK-NEXT: %[[S:.*]] = binade.save %arg0 {{.*}} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  // CHECK-NEXT: %[[N:.*]] = binade.neg %arg0
  // CHECK-NEXT: binade.cast %[[S]]
  %0 = binade.save %x {precision = #binade.precision<compute = f32, result = f32, rule = "mine.yaml:7">} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = binade.neg %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = binade.transpose %0 {permutation = array<i64: 1, 0>, precision = #d} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %3 = binade.cast %2 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  return %3 : tensor<64x8xbf16>
}

// A value that all users narrow is narrowed once and saved in the narrow format.
// CHECK-LABEL: func.func @saved
func.func @saved(%x: tensor<8x64xf32>) -> (tensor<8x64xbf16>, tensor<64x8xbf16>) {
  // CHECK-NEXT: %[[Y:.*]] = binade.neg %arg0
  // CHECK-NEXT: %[[C:.*]] = binade.cast %[[Y]] : (tensor<8x64xf32>) -> tensor<8x64xbf16>
  // CHECK-NEXT: %[[S:.*]] = binade.save %[[C]] {{.*}}result = bf16{{.*}} -> tensor<8x64xbf16>
  // CHECK-NEXT: %[[T:.*]] = binade.transpose %[[S]] {{.*}}result = bf16
  // CHECK-NEXT: return %[[C]], %[[T]]
  %0 = binade.neg %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = binade.cast %0 : (tensor<8x64xf32>) -> tensor<8x64xbf16>
  %2 = binade.save %0 {precision = #d} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %3 = binade.transpose %2 {binade.phase = #binade.phase<backward>, permutation = array<i64: 1, 0>, precision = #d} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %4 = binade.cast %3 {binade.phase = #binade.phase<backward>} : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  return %1, %4 : tensor<8x64xbf16>, tensor<64x8xbf16>
}

// A value that some users read in the wide format is saved in it.
// CHECK-LABEL: func.func @saved_for_both
func.func @saved_for_both(%x: tensor<8x64xf32>) -> (tensor<8x64xbf16>, tensor<8x64xf32>) {
  // CHECK-NEXT: %[[S:.*]] = binade.save %arg0 {{.*}}result = f32
  // CHECK-NEXT: binade.cast %[[S]]
  %0 = binade.save %x {precision = #d} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = binade.cast %0 {binade.phase = #binade.phase<backward>} : (tensor<8x64xf32>) -> tensor<8x64xbf16>
  %2 = binade.neg %0 {binade.phase = #binade.phase<backward>} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %1, %2 : tensor<8x64xbf16>, tensor<8x64xf32>
}

// A value that is computed narrow is saved narrow, and widened where it is read.
// CHECK-LABEL: func.func @widened
func.func @widened(%x: tensor<8x64xbf16>) -> tensor<8x64xf32> {
  // CHECK-NEXT: %[[S:.*]] = binade.save %arg0 {{.*}}result = bf16
  // CHECK-NEXT: %[[C:.*]] = binade.cast %[[S]] {binade.phase = #binade.phase<backward>}
  // CHECK-NEXT: binade.neg %[[C]]
  %0 = binade.cast %x : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %1 = binade.save %0 {precision = #d} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %3 = binade.neg %1 {binade.phase = #binade.phase<backward>} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %3 : tensor<8x64xf32>
}
