// RUN: binade-opt %s --split-input-file --binade-emit-gpu-kernels --canonicalize --cse | FileCheck %s

// A team of 32 threads computes a row of 70 columns in vectors of two elements. A team
// without a row recomputes the last row, and stores nothing.

// CHECK-LABEL: gpu.module @kernels
// CHECK:         gpu.func @largest.items(%[[X:.*]]: memref<210xf32>{{.*}}, %[[Y:.*]]: memref<210xf32>{{.*}}, %[[M:.*]]: memref<3xf32>{{.*}}) kernel
// CHECK-SAME:      known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 1, 1, 1>
// CHECK-DAG:       %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG:       %[[C32:.*]] = arith.constant 32 : index
// CHECK-DAG:       %[[C64:.*]] = arith.constant 64 : index
// CHECK:           %[[THREAD:.*]] = gpu.thread_id x
// CHECK:           %[[TEAM:.*]] = arith.divui %[[THREAD]], %[[C32]]
// CHECK:           %[[HAS:.*]] = arith.cmpi ult, %{{.*}}, %[[C3]]
// CHECK:           scf.for {{.*}} step %[[C64]] iter_args
// CHECK:             vector.load %[[X]]{{.*}} vector<2xf32>
// CHECK:             scf.if %[[HAS]] {
// CHECK-NEXT:          vector.store %{{.*}}, %[[Y]]
// CHECK-COUNT-5:   gpu.shuffle xor
// CHECK:           memref.store %{{.*}}, %[[M]]
func.func private @largest(%x: tensor<3x70xf32>) -> (tensor<3x70xf32>, tensor<3xf32>) attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %0 = binade.neg %x : (tensor<3x70xf32>) -> tensor<3x70xf32>
  %1 = binade.reduce_max %0 {axes = array<i64: 1>} : (tensor<3x70xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3x70xf32>, tensor<3xf32>
}

// -----

// Expensive values that are used again are kept in shared memory.

// CHECK:         gpu.func @softmax.items
// CHECK-SAME:      workgroup(%[[KEPT:.*]] : memref<{{[0-9]+}}xi8, #gpu.address_space<workgroup>> {llvm.align = 16 : i32})
// CHECK:           memref.view %[[KEPT]]
func.func private @softmax(%x: tensor<32x256xf32>) -> tensor<32x256xf32> attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %0 = binade.softmax %x : (tensor<32x256xf32>) -> tensor<32x256xf32>
  return %0 : tensor<32x256xf32>
}
