// RUN: binade-translate %s --gpu-to-ptx | FileCheck %s

// Loads of memory that is only read and does not overlap use the read-only cache, with
// 16 bytes per instruction where the access states this alignment.

// CHECK:     .visible .entry wide(
// CHECK-DAG: ld.global.nc.v4.b32
// CHECK-DAG: ld.global.nc.v2.b32
// CHECK-NOT: ld.global.nc.b
// CHECK:     st.global.v4.b32
// CHECK:     .visible .entry narrow(
// CHECK-NOT: ld.global.{{.*}}v4
// CHECK:     ld.global.b32
// CHECK:     ret;
gpu.module @kernels {
  gpu.func @wide(%x: memref<1024xf32> {llvm.noalias}, %b: memref<1024xbf16> {llvm.noalias}, %y: memref<1024xf32> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c4 = arith.constant 4 : index
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c4 : index
    %v = vector.load %x[%at] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32>
    %n = vector.load %b[%at] {alignment = 8 : i64} : memref<1024xbf16>, vector<4xbf16>
    %m = arith.extf %n : vector<4xbf16> to vector<4xf32>
    %w = arith.mulf %v, %m : vector<4xf32>
    vector.store %w, %y[%at] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32>
    gpu.return
  }

  // The memory is also written, and its alignment is unknown.
  gpu.func @narrow(%x: memref<1024xf32>) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c4 = arith.constant 4 : index
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c4 : index
    %v = vector.load %x[%at] : memref<1024xf32>, vector<4xf32>
    %w = arith.mulf %v, %v : vector<4xf32>
    vector.store %w, %x[%at] : memref<1024xf32>, vector<4xf32>
    gpu.return
  }
}
