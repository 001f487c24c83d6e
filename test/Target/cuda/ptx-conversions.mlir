// RUN: binade-translate %s --gpu-to-ptx --chip=sm_90 | FileCheck %s --check-prefixes=CHECK,FLOAT8
// RUN: binade-translate %s --gpu-to-ptx --chip=sm_89 | FileCheck %s --check-prefixes=CHECK,FLOAT8
// RUN: binade-translate %s --gpu-to-ptx --chip=sm_100 | FileCheck %s --check-prefixes=CHECK,FLOAT8
// RUN: binade-translate %s --gpu-to-ptx --chip=sm_80 | FileCheck %s --check-prefixes=CHECK,BITS

// Two elements per instruction; a clamp before a cast to 8 bits is part of it. A chip that
// does not have these formats computes with their bits.

// CHECK:         .visible .entry encode(
// FLOAT8-NOT:    setp
// FLOAT8-NOT:    selp
// FLOAT8-COUNT-2: cvt.rn.satfinite.e4m3x2.f32
// FLOAT8:        st.global.v2.b16
// BITS-NOT:      e4m3x2
// BITS:          setp
// CHECK:         ret;
gpu.module @kernels {
  gpu.func @encode(%x: memref<1024xf32> {llvm.noalias}, %y: memref<1024xf8E4M3FN> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c4 = arith.constant 4 : index
    %most = arith.constant dense<448.0> : vector<4xf32>
    %least = arith.constant dense<-448.0> : vector<4xf32>
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c4 : index
    %v = vector.load %x[%at] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32>
    %above = arith.cmpf ogt, %v, %most : vector<4xf32>
    %low = arith.select %above, %most, %v : vector<4xi1>, vector<4xf32>
    %below = arith.cmpf olt, %low, %least : vector<4xf32>
    %kept = arith.select %below, %least, %low : vector<4xi1>, vector<4xf32>
    %code = arith.truncf %kept : vector<4xf32> to vector<4xf8E4M3FN>
    vector.store %code, %y[%at] {alignment = 4 : i64} : memref<1024xf8E4M3FN>, vector<4xf8E4M3FN>
    gpu.return
  }

  // Infinity is beyond what the instruction makes.
  // CHECK:         .visible .entry overflow(
  // CHECK-NOT:     e5m2x2
  // CHECK:         ret;
  gpu.func @overflow(%x: memref<1024xf32> {llvm.noalias}, %y: memref<1024xf8E5M2> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %thread = gpu.thread_id x
    %v = memref.load %x[%thread] : memref<1024xf32>
    %code = arith.truncf %v : f32 to f8E5M2
    memref.store %code, %y[%thread] : memref<1024xf8E5M2>
    gpu.return
  }

  // CHECK:         .visible .entry decode(
  // FLOAT8:        ld.global.nc.v2.b16
  // FLOAT8-COUNT-2: cvt.rn.f16x2.e5m2x2
  // BITS-NOT:      e5m2x2
  // CHECK-COUNT-2: cvt.rn.bf16x2.f32
  // CHECK:         st.global.v2.b32
  // CHECK:         ret;
  gpu.func @decode(%x: memref<1024xf8E5M2> {llvm.noalias}, %y: memref<1024xbf16> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c4 = arith.constant 4 : index
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c4 : index
    %code = vector.load %x[%at] {alignment = 4 : i64} : memref<1024xf8E5M2>, vector<4xf8E5M2>
    %v = arith.extf %code : vector<4xf8E5M2> to vector<4xf32>
    %w = arith.mulf %v, %v : vector<4xf32>
    %n = arith.truncf %w : vector<4xf32> to vector<4xbf16>
    vector.store %n, %y[%at] {alignment = 8 : i64} : memref<1024xbf16>, vector<4xbf16>
    gpu.return
  }

  // Three numbers, and one: the last word is half used.
  // CHECK:         .visible .entry odd(
  // FLOAT8-COUNT-2: cvt.rn.f16x2.e4m3x2
  // CHECK-COUNT-2: cvt.rn.f16x2.f32
  // CHECK:         ret;
  gpu.func @odd(%x: memref<768xf8E4M3FN> {llvm.noalias}, %y: memref<768xf16> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c3 = arith.constant 3 : index
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c3 : index
    %code = vector.load %x[%at] : memref<768xf8E4M3FN>, vector<3xf8E4M3FN>
    %v = arith.extf %code : vector<3xf8E4M3FN> to vector<3xf32>
    %w = arith.mulf %v, %v : vector<3xf32>
    %n = arith.truncf %w : vector<3xf32> to vector<3xf16>
    vector.store %n, %y[%at] : memref<768xf16>, vector<3xf16>
    gpu.return
  }
}
