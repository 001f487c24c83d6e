// RUN: binade-opt %s --split-input-file --binade-target-cuda-pipeline --verify-diagnostics
// RUN: echo "module {}" > %t
// RUN: not binade-opt %t --binade-target-cuda-pipeline=chip=sm_90x 2>&1 | FileCheck %s
// RUN: not binade-translate %t --gpu-to-ptx --chip=sm_90x 2>&1 | FileCheck %s

// CHECK: error: unknown chip 'sm_90x'; expected sm_80, sm_89, sm_90, sm_100

// Ops that LLVM would lower to library calls or approximations are rejected.
gpu.module @kernels {
  gpu.func @library(%x: memref<1xf64>) kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %v = memref.load %x[%c0] : memref<1xf64>
    // expected-error @+1 {{'math.tanh' op has no instruction on a GPU for 'f64'}}
    %w = math.tanh %v : f64
    memref.store %w, %x[%c0] : memref<1xf64>
    gpu.return
  }
}

// -----

// The instruction of this one, ex2.approx, is not exact.
gpu.module @kernels {
  gpu.func @approximate(%x: memref<1xf32>) kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %v = memref.load %x[%c0] : memref<1xf32>
    // expected-error @+1 {{'math.exp2' op has no instruction on a GPU for 'f32'}}
    %w = math.exp2 %v : f32
    memref.store %w, %x[%c0] : memref<1xf32>
    gpu.return
  }
}

// -----

// Ops without a lowering are rejected.
gpu.module @kernels {
  gpu.func @unknown() kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
    %c1 = arith.constant 1 : i32
    // expected-error @+1 {{failed to legalize operation 'gpu.all_reduce'}}
    %all = gpu.all_reduce add %c1 {} : (i32) -> i32
    gpu.return
  }
}
