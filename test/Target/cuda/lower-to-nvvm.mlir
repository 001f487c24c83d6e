// RUN: binade-opt %s --split-input-file --binade-target-cuda-pipeline | FileCheck %s
// RUN: binade-opt %s --split-input-file --binade-target-cuda-pipeline=chip=sm_89 \
// RUN:   | FileCheck %s --check-prefix OLDER

// The result has bare pointers marked `noalias`, the exact block size, and no ops of the
// source dialects.

// CHECK-LABEL: llvm.func @square(
// CHECK-SAME:    %[[X:.*]]: !llvm.ptr {llvm.noalias}, %[[Y:.*]]: !llvm.ptr {llvm.noalias})
// CHECK-SAME:    nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>
// CHECK-NOT:     gpu.
// CHECK:         nvvm.read.ptx.sreg.tid.x
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK:         llvm.fmul
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr
gpu.module @kernels {
  gpu.func @square.items(%x: memref<1024xf32> {llvm.noalias}, %y: memref<1024xf32> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    %c4 = arith.constant 4 : index
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c4 : index
    %v = vector.load %x[%at] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32>
    %w = arith.mulf %v, %v : vector<4xf32>
    vector.store %w, %y[%at] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32>
    gpu.return
  }
}

// -----

// Shared memory is as aligned as the widest access of it.

// CHECK:       llvm.mlir.global internal @__wg_shared_finish_0() {addr_space = 3 : i32, alignment = 16 : i64}
// CHECK-SAME:    !llvm.array<1024 x i8>
// CHECK-LABEL: llvm.func @shared_finish(
// CHECK:         nvvm.barrier
// CHECK:         nvvm.shfl.sync bfly
gpu.module @kernels {
  gpu.func @shared.finish(%x: memref<256xf32>) workgroup(%all: memref<1024xi8, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %thread = gpu.thread_id x
    %own = memref.view %all[%c0][] : memref<1024xi8, #gpu.address_space<workgroup>> to memref<256xf32, #gpu.address_space<workgroup>>
    %v = memref.load %x[%thread] : memref<256xf32>
    memref.store %v, %own[%thread] : memref<256xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %first = memref.load %own[%c0] : memref<256xf32, #gpu.address_space<workgroup>>
    %other, %valid = gpu.shuffle xor %first, %c1, %c32 : f32
    memref.store %other, %x[%thread] : memref<256xf32>
    gpu.return
  }
}

// -----

// A number of resident blocks bounds the registers of a thread, where the assembler
// finds as many without spilling.

// CHECK-LABEL: llvm.func @resident
// CHECK-SAME:    nvvm.minctasm = 2 : i32
// CHECK-NOT:     preferred
// OLDER-LABEL: llvm.func @resident
// OLDER-NOT:     minctasm
gpu.module @kernels {
  gpu.func @resident.items() kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, nvvm.preferred_minctasm = 2 : i32} {
    gpu.return
  }
}
