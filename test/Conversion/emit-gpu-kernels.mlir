// RUN: binade-opt %s --split-input-file --binade-emit-gpu-kernels --canonicalize --cse | FileCheck %s

// A team of 32 threads computes a row of 70 columns in vectors of two elements. Each
// thread has two vectors; the second exists in the first three threads, others repeat
// their first. A team without a row recomputes the last row, and stores nothing.

// CHECK-LABEL: gpu.module @kernels
// CHECK:         gpu.func @largest.items(%[[X:.*]]: memref<210xf32>{{.*}}, %[[Y:.*]]: memref<210xf32>{{.*}}, %[[M:.*]]: memref<3xf32>{{.*}}) kernel
// CHECK-SAME:      known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 1, 1, 1>
// CHECK-DAG:       %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG:       %[[C32:.*]] = arith.constant 32 : index
// CHECK-DAG:       %[[C70:.*]] = arith.constant 70 : index
// CHECK:           %[[THREAD:.*]] = gpu.thread_id x
// CHECK:           %[[TEAM:.*]] = arith.divui %[[THREAD]], %[[C32]]
// CHECK:           %[[HAS:.*]] = arith.cmpi ult, %{{.*}}, %[[C3]]
// CHECK:           %[[EXISTS:.*]] = arith.cmpi ult, %[[COLUMN:.*]], %[[C70]]
// CHECK:           arith.select %[[EXISTS]], %[[COLUMN]], %{{.*}} : index
// CHECK-NOT:       scf.for
// CHECK-COUNT-2:   vector.load %[[X]]{{.*}} vector<2xf32>
// CHECK:           scf.if %[[HAS]] {
// CHECK-NEXT:        vector.store %{{.*}}, %[[Y]]
// CHECK:           %[[BOTH:.*]] = arith.andi %[[HAS]], %[[EXISTS]]
// CHECK:           scf.if %[[BOTH]] {
// CHECK-NEXT:        vector.store %{{.*}}, %[[Y]]
// CHECK:           arith.select %[[EXISTS]], %{{.*}} : vector<2xf32>
// CHECK-COUNT-5:   gpu.shuffle xor
// CHECK:           memref.store %{{.*}}, %[[M]]
func.func private @largest(%x: tensor<3x70xf32>) -> (tensor<3x70xf32>, tensor<3xf32>) attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %0 = binade.neg %x : (tensor<3x70xf32>) -> tensor<3x70xf32>
  %1 = binade.reduce_max %0 {axes = array<i64: 1>} : (tensor<3x70xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3x70xf32>, tensor<3xf32>
}

// -----

// A thread loads its eight elements of a row once, and keeps their exponentials.

// CHECK:         gpu.func @softmax.items(%[[X:[a-z0-9]+]]: memref<8192xf32> {{.*}} kernel
// CHECK-COUNT-2:   vector.load %[[X]][%
// CHECK-NOT:       vector.load
// CHECK-COUNT-2:   math.exp
// CHECK-NOT:       math.exp
// CHECK-COUNT-2:   vector.store
func.func private @softmax(%x: tensor<32x256xf32>) -> tensor<32x256xf32> attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %0 = binade.softmax %x : (tensor<32x256xf32>) -> tensor<32x256xf32>
  return %0 : tensor<32x256xf32>
}

// -----

// The 128 threads of a row combine the results of their warps after one barrier.

// CHECK:         gpu.func @long_rows.items{{.*}}workgroup(%[[WARPS:.*]] : memref<4xi32
// CHECK-SAME:      known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 64, 1, 1>
// CHECK:           %[[WARP:.*]] = gpu.subgroup_reduce maxsi {{.*}} uniform
// CHECK:           scf.if
// CHECK-NEXT:        memref.store %[[WARP]], %[[WARPS]]
// CHECK:           gpu.barrier
// CHECK:           memref.load %[[WARPS]]
// CHECK-NEXT:      gpu.subgroup_reduce maxsi
// CHECK-NOT:       gpu.barrier
// CHECK:           gpu.return
func.func private @long_rows(%x: tensor<64x4096xbf16>) -> (tensor<64x4096xf8E4M3FN>, tensor<64xf32>) attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %0 = binade.cast %x : (tensor<64x4096xbf16>) -> tensor<64x4096xf32>
  %1:2 = binade.quantize %0 {format = #binade.quantized<f8E4M3FN, per_row, scale = f32>, saturate}
    : (tensor<64x4096xf32>) -> (tensor<64x4096xf8E4M3FN>, tensor<64xf32>)
  return %1#0, %1#1 : tensor<64x4096xf8E4M3FN>, tensor<64xf32>
}

// -----

// A thread loads its four vectors of a block before it computes with them. The last block
// of 2^14 + 8 elements has two, in a loop that other threads skip.

// CHECK:         gpu.func @negate.items(%[[X:[a-z0-9]+]]: memref<16392xf32>
// CHECK:           %[[WHOLE:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}}
// CHECK:           scf.if %[[WHOLE]] {
// CHECK-COUNT-4:     vector.load %[[X]]
// CHECK-NOT:         vector.load
// CHECK-COUNT-4:     vector.store
// CHECK-NOT:         vector
// CHECK:             }
// CHECK:           scf.if
// CHECK:             scf.for
// CHECK:               vector.load %[[X]]
// CHECK:               vector.store
func.func private @negate(%x: tensor<16392xf32>) -> tensor<16392xf32> attributes {binade.kernel = #binade.schedule<elementwise>} {
  %0 = binade.neg %x : (tensor<16392xf32>) -> tensor<16392xf32>
  return %0 : tensor<16392xf32>
}
