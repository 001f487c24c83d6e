// RUN: binade-opt %s --binade-form-kernels --split-input-file | FileCheck %s

// Which ops are fused into one kernel, and which are not.

// Elementwise ops and row reductions of one shape that feed each other are one kernel,
// which computes what costs nothing (a broadcast, a constant) itself.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[Y:.*]] = binade.launch [@[[K:add_mul_0]]](%arg0, %arg1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:    return %[[Y]]
// CHECK:       func.func private @[[K]](%[[X:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8xf32>) -> tensor<4x8xf32> attributes {binade.kernel = #binade.schedule<row_reduction>}
// CHECK-NEXT:    %[[SPREAD:.*]] = binade.broadcast %[[B]]
// CHECK-NEXT:    %[[SUM:.*]] = binade.add %[[X]], %[[SPREAD]]
// CHECK-NEXT:    %[[SOFT:.*]] = binade.softmax %[[SUM]]
// CHECK-NEXT:    %[[HALF:.*]] = binade.constant dense<5.000000e-01>
// CHECK-NEXT:    binade.mul %[[SOFT]], %[[HALF]]
func.func @step(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %half = binade.constant dense<0.5> : tensor<4x8xf32>
  %0 = binade.broadcast %b {axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %1 = binade.add %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = binade.softmax %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = binade.mul %2, %half : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// -----

// Library calls are not fused and read their operands from memory: the broadcast gets a
// kernel of its own.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@broadcast_0](%arg1) : (tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:    %[[M:.*]] = binade.matmul %arg0, %[[B]]
// CHECK-NEXT:    %[[R:.*]] = binade.launch [@relu_1](%[[M]])
// CHECK-NEXT:    return %[[R]]
func.func @step(%x: tensor<4x4xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = binade.broadcast %b {axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %1 = binade.matmul %x, %0 : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = binade.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Another shape, a reduction over columns, a permutation, another phase: each ends the
// kernel.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@exp_[[#]]](%arg0)
// CHECK:         binade.launch [@reduce_sum_[[#]]](%[[A]]) : (tensor<4x8xf32>) -> tensor<8xf32>
// CHECK:         binade.launch [@transpose_[[#]]](%[[A]]) : (tensor<4x8xf32>) -> tensor<8x4xf32>
// CHECK:         binade.launch [@neg_[[#]]](%[[A]]) {binade.phase = #binade.phase<backward>}
// CHECK-DAG:   binade.kernel = #binade.schedule<elementwise>
// CHECK-DAG:   binade.kernel = #binade.schedule<column_reduction>
// CHECK-DAG:   binade.kernel = #binade.schedule<permute>
func.func @step(%x: tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8x4xf32>, tensor<4x8xf32>) {
  %0 = binade.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = binade.reduce_sum %0 {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
  %2 = binade.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %3 = binade.neg %0 {binade.phase = #binade.phase<backward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %2, %3 : tensor<8xf32>, tensor<8x4xf32>, tensor<4x8xf32>
}

// -----

// Fusion with the first kernel would make a cycle: the matmul reads from it and feeds the
// sum.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[E:.*]] = binade.launch [@exp_0](%arg0)
// CHECK-NEXT:    %[[M:.*]] = binade.matmul %[[E]], %[[E]]
// CHECK-NEXT:    %[[S:.*]] = binade.launch [@add_1](%[[E]], %[[M]])
func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = binade.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = binade.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = binade.add %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// Fusion keeps the rounding; decisions are removed, because the types imply them. Narrow
// values are widened where they are read, not stored wide.

// CHECK-LABEL: func.func @step
// CHECK:         %[[L:.*]]:2 = binade.launch [@[[FIRST:.*]]](%arg0) : (tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xf32>)
// CHECK:         binade.launch [@[[SECOND:.*]]](%[[L]]#0) {binade.phase = #binade.phase<backward>} : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK:       func.func private @[[FIRST]]
// CHECK-NOT:     precision
// CHECK:         %[[N:.*]] = binade.cast %{{.*}} : (tensor<8xf32>) -> tensor<8xbf16>
// CHECK:         %[[W:.*]] = binade.cast %[[N]] : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK:         binade.neg %[[W]]
// CHECK:       func.func private @[[SECOND]]
// CHECK:         binade.cast {{.*}} : (tensor<8xbf16>) -> tensor<8xf32>
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = binade.tanh %x {precision = #binade.precision<compute = f32, result = f32, rule = "r">}
    : (tensor<8xf32>) -> tensor<8xf32>
  %1 = binade.cast %0 : (tensor<8xf32>) -> tensor<8xbf16>
  %2 = binade.cast %1 : (tensor<8xbf16>) -> tensor<8xf32>
  %3 = binade.neg %2 : (tensor<8xf32>) -> tensor<8xf32>
  %4 = binade.exp %2 {binade.phase = #binade.phase<backward>} : (tensor<8xf32>) -> tensor<8xf32>
  return %3, %4 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Ops on scalars are one kernel.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    binade.launch [@mul_add_0](%arg0, %arg1)
// CHECK-NEXT:    return
// CHECK:       binade.kernel = #binade.schedule<scalars>
func.func @step(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = binade.mul %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = binade.sqrt %0 : (tensor<f32>) -> tensor<f32>
  %2 = binade.add %1, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// A full reduction is fused with its producer and with other full reductions of the same
// value. The users of the sum are in a later kernel.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[Y:.*]]:3 = binade.launch [@mul_reduce_max_0](%arg0)
// CHECK-NEXT:    %[[Z:.*]] = binade.launch [@mul_1](%[[Y]]#0, %[[Y]]#1)
// CHECK-NEXT:    return %[[Z]], %[[Y]]#2
// CHECK:       func.func private @mul_reduce_max_0
// CHECK-SAME:    binade.kernel = #binade.schedule<full_reduction>
// CHECK:         return %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<f32>, tensor<f32>
func.func @step(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<f32>) {
  %0 = binade.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = binade.reduce_sum %0 {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %2 = binade.broadcast %1 {axes = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %3 = binade.mul %0, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = binade.reduce_max %0 {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %3, %4 : tensor<4x8xf32>, tensor<f32>
}

// -----

// Siblings that one op reads form one kernel with it, if neither depends on the other; a
// value whose only user is a cast in the kernel is not a result of the kernel.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[Y:.*]] = binade.launch [@exp_mul_0](%arg0, %arg1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf64>
// CHECK-NEXT:    return %[[Y]]
func.func @step(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf64> {
  %0 = binade.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = binade.tanh %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = binade.sqrt %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = binade.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = binade.add %3, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = binade.cast %4 : (tensor<4x8xf32>) -> tensor<4x8xf64>
  %6 = binade.mul %5, %5 : (tensor<4x8xf64>, tensor<4x8xf64>) -> tensor<4x8xf64>
  return %6 : tensor<4x8xf64>
}

// -----

// A user of a full reduction cannot share a kernel with the producer of its operand.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@exp_reduce_sum_0](%arg0)
// CHECK-NEXT:    binade.launch [@tanh_add_1](%[[A]]#1, %[[A]]#0)
func.func @step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = binade.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = binade.reduce_sum %0 {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %2 = binade.broadcast %1 {axes = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %3 = binade.tanh %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = binade.add %0, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// -----

// Independent updates share one launch; an update that reads the result of another does not.

binade.optimizer @sgd {states = [], hypers = []}
func.func private @sgd.update(%p: f32, %g: f32) -> f32 {
  %n = arith.subf %p, %g : f32
  return %n : f32
}

// CHECK-LABEL: func.func @step
// CHECK:         %[[ONCE:.*]]:2 = binade.launch [@[[U:.*]], @[[U]]](%arg0, %arg2, %arg1, %arg2)
// CHECK:         %[[TWICE:.*]] = binade.launch [@{{.*}}](%[[ONCE]]#0, %arg2)
// CHECK:         return %[[ONCE]]#1, %[[TWICE]]
func.func @step(%p: tensor<9xf32>, %q: tensor<9xf32>, %g: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %0 = binade.optimizer_update @sgd %p, %g : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  %1 = binade.optimizer_update @sgd %q, %g : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  %2 = binade.optimizer_update @sgd %0, %g : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  return %1, %2 : tensor<9xf32>, tensor<9xf32>
}

// -----

// Scales of groups are computed in the kernel that reduces the rows: a sum, its norm and
// the quantized values of both are one kernel. Groups of another size are not.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:4 = binade.launch [@[[K:add_abs_0]]](%arg0, %arg1)
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@group_max_1](%[[A]]#3) : (tensor<4x64xf32>) -> tensor<4x2xf32>
// CHECK:       func.func private @[[K]]
// CHECK:         binade.softmax
// CHECK:         binade.group_max %{{.*}} {size = 16 : i64}
// CHECK:         binade.choose_scale
// CHECK:         binade.encode
// CHECK:       func.func private @group_max_1
func.func @step(%x: tensor<4x64xf32>, %r: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<16xf32>, tensor<4x64xf8E4M3FN>, tensor<4x2xf32>) {
  %0 = binade.add %x, %r : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = binade.softmax %0 : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %2 = binade.abs %0 : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %3 = binade.group_max %2 {size = 16} : (tensor<4x64xf32>) -> tensor<16xf32>
  %4:2 = binade.choose_scale %3 {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = f32>} : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  %5 = binade.encode %0, %4#1 {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = f32>, saturate} : (tensor<4x64xf32>, tensor<16xf32>) -> tensor<4x64xf8E4M3FN>
  %6 = binade.abs %1 : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %7 = binade.group_max %6 {size = 32} : (tensor<4x64xf32>) -> tensor<4x2xf32>
  return %1, %4#0, %5, %7 : tensor<4x64xf32>, tensor<16xf32>, tensor<4x64xf8E4M3FN>, tensor<4x2xf32>
}

// -----

// Rows that are reduced in another way have a kernel of their own.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    binade.launch [@exp_reduce_sum_0](%arg0)
// CHECK-NEXT:    binade.launch [@reduce_sum_1]
func.func @step(%x: tensor<4x8x16xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %0 = binade.exp %x : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  %1 = binade.reduce_sum %0 {axes = array<i64: 2>} : (tensor<4x8x16xf32>) -> tensor<4x8xf32>
  %2 = binade.reduce_sum %0 {axes = array<i64: 1, 2>} : (tensor<4x8x16xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// What a norm leaves of rows and what measures its result are of the same rows.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@softmax_encode_0](%arg0)
// CHECK-NEXT:    return %[[A]]#0, %[[A]]#1
func.func @step(%x: tensor<4x64xf32>) -> (tensor<4xf32>, tensor<4x64xf8E4M3FN>) {
  %0 = binade.softmax %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = binade.reduce_max %0 {axes = array<i64: 1>} : (tensor<4x64xf32>) -> tensor<4xf32>
  %2:2 = binade.choose_scale %1 {format = #binade.quantized<f8E4M3FN, per_row, scale = f32>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %3 = binade.encode %0, %2#1 {format = #binade.quantized<f8E4M3FN, per_row, scale = f32>, saturate} : (tensor<4x64xf32>, tensor<4xf32>) -> tensor<4x64xf8E4M3FN>
  return %2#0, %3 : tensor<4xf32>, tensor<4x64xf8E4M3FN>
}

// -----

// Reductions of groups in rows and in columns of one tensor are fused with its producer; a
// reduction of whole rows is not fused with one of groups in columns.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@tanh_group_max_0](%arg0)
// CHECK-NEXT:    %[[B:.*]] = binade.launch [@softmax_1](%arg0)
// CHECK-NEXT:    %[[C:.*]] = binade.launch [@group_max_2](%[[B]])
// CHECK-NEXT:    return %[[A]]#0, %[[A]]#1, %[[C]]
func.func @step(%x: tensor<32x64xf32>) -> (tensor<2x64xf32>, tensor<32x4xf32>, tensor<2x64xf32>) {
  %0 = binade.tanh %x : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %1 = binade.group_max %0 {size = 16, axis = -2} : (tensor<32x64xf32>) -> tensor<2x64xf32>
  %2 = binade.group_max %0 {size = 16} : (tensor<32x64xf32>) -> tensor<32x4xf32>
  %3 = binade.softmax %x : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %4 = binade.group_max %3 {size = 16, axis = -2} : (tensor<32x64xf32>) -> tensor<2x64xf32>
  return %1, %2, %4 : tensor<2x64xf32>, tensor<32x4xf32>, tensor<2x64xf32>
}

// -----

// The users of a returned value recompute it in their kernels, and so an index that is
// computed from it. The kernel that computes its operand returns both.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@neg_0](%arg0)
// CHECK-NEXT:    %[[C:.*]] = binade.launch [@mul_gather_1](%arg1, %[[A]]#0)
// CHECK-NEXT:    return %[[C]], %[[A]]#1
func.func @step(%x: tensor<4xf32>, %t: tensor<32xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  %0 = binade.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = binade.cast %0 : (tensor<4xf32>) -> tensor<4xi64>
  %2 = binade.constant dense<1> : tensor<4xi64>
  %3 = binade.mul %1, %2 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %4 = binade.gather %t, %3 : (tensor<32xf32>, tensor<4xi64>) -> tensor<4xf32>
  return %4, %1 : tensor<4xf32>, tensor<4xi64>
}

// -----

// The kernel that reduces a tensor to a scalar also computes with it, and casts it for a
// library call.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]]:2 = binade.launch [@abs_choose_scale_0](%arg0) : (tensor<64xf32>) -> (tensor<f32>, tensor<f32>)
// CHECK-NEXT:    %[[Y:.*]] = binade.scaled_matmul %arg1, %[[A]]#1, %arg2, %arg3
// CHECK-NEXT:    return %[[Y]], %[[A]]#0
// CHECK:         binade.reduce_max
// CHECK-NEXT:    %[[S:.*]], %[[F:.*]] = binade.choose_scale
// CHECK-NEXT:    %[[W:.*]] = binade.cast %[[S]]
// CHECK-NEXT:    return %[[F]], %[[W]]
func.func @step(%x: tensor<64xf32>, %a: tensor<32x64xf8E4M3FN>, %b: tensor<48x64xf8E4M3FN>, %s: tensor<f32>)
    -> (tensor<32x48xbf16>, tensor<f32>) {
  %0 = binade.abs %x : (tensor<64xf32>) -> tensor<64xf32>
  %1 = binade.reduce_max %0 {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  %scale, %factor = binade.choose_scale %1
    {format = #binade.quantized<f8E4M3FN, per_tensor, scale = bf16>}
    : (tensor<f32>) -> (tensor<bf16>, tensor<f32>)
  %2 = binade.cast %scale : (tensor<bf16>) -> tensor<f32>
  %y = binade.scaled_matmul %a, %2, %b, %s
    : (tensor<32x64xf8E4M3FN>, tensor<f32>, tensor<48x64xf8E4M3FN>, tensor<f32>) -> tensor<32x48xbf16>
  return %y, %factor : tensor<32x48xbf16>, tensor<f32>
}

// -----

// A kernel does not compute the operand of an op whose elements depend on many elements of
// it; what reads the result is computed with it.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@tanh_0](%arg0)
// CHECK-NEXT:    %[[B:.*]]:2 = binade.launch [@[[K:hadamard_.*1]]](%[[A]])
// CHECK-NEXT:    return %[[B]]#0, %[[B]]#1
func.func @step(%x: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<2x64xf32>) {
  %0 = binade.tanh %x : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %1 = binade.hadamard %0 {axis = -2, size = 16} : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %2 = binade.abs %1 : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %3 = binade.group_max %2 {size = 16, axis = -2} : (tensor<32x64xf32>) -> tensor<2x64xf32>
  return %1, %3 : tensor<32x64xf32>, tensor<2x64xf32>
}

// -----

// A kernel stores a value that is recomputed for a library call, instead of its operand, if
// no kernel recomputes it.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@tanh_cast_0](%arg0) : (tensor<32x64xf32>) -> tensor<32x64xbf16>
// CHECK-NEXT:    %[[Y:.*]] = binade.matmul %[[A]], %arg1
// CHECK-NEXT:    return %[[Y]]
func.func @step(%x: tensor<32x64xf32>, %w: tensor<64x48xbf16>) -> tensor<32x48xbf16> {
  %0 = binade.tanh %x : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %1 = binade.cast %0 : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  %2 = binade.matmul %1, %w : (tensor<32x64xbf16>, tensor<64x48xbf16>) -> tensor<32x48xbf16>
  return %2 : tensor<32x48xbf16>
}

// -----

// A value whose elements are those of other places has a kernel of its own.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[M:.*]] = binade.launch [@reduce_max_0](%arg0) : (tensor<32x64xf32>) -> tensor<f32>
// CHECK-NEXT:    %[[A:.*]] = binade.launch [@broadcast_1](%[[M]]) : (tensor<f32>) -> tensor<32x64xf32>
// CHECK-NEXT:    %[[Y:.*]] = binade.matmul %[[A]], %arg1
// CHECK-NEXT:    return %[[Y]]
func.func @step(%x: tensor<32x64xf32>, %w: tensor<64x48xf32>) -> tensor<32x48xf32> {
  %0 = binade.reduce_max %x {axes = array<i64: 0, 1>} : (tensor<32x64xf32>) -> tensor<f32>
  %1 = binade.broadcast %0 {axes = array<i64>} : (tensor<f32>) -> tensor<32x64xf32>
  %2 = binade.matmul %1, %w : (tensor<32x64xf32>, tensor<64x48xf32>) -> tensor<32x48xf32>
  return %2 : tensor<32x48xf32>
}
