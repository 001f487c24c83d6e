// RUN: binade-translate %s --gpu-to-ptx --chip=sm_80 | FileCheck %s

// Copies to shared memory do not pass through registers, and a power of two that may be
// approximated is one instruction.

// CHECK-LABEL: .visible .entry copies(
// CHECK:         cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16, %r{{[0-9]+}};
// CHECK:         cp.async.ca.shared.global [{{.*}}], [{{.*}}], 4;
// CHECK:         cp.async.commit_group;
// CHECK:         cp.async.wait_group 0;
// CHECK:         bar.sync 0;
// CHECK-NOT:     mul
// CHECK-COUNT-2: ex2.approx.ftz.f32
// CHECK-NOT:     ex2
gpu.module @kernels {
  gpu.func @copies(%x: memref<512xf32>, %count: memref<1xindex>)
      workgroup(%s: memref<256xf32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c128 = arith.constant 128 : index
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c4 : index
    %n = memref.load %count[%c0] : memref<1xindex>
    %wide = nvgpu.device_async_copy %x[%at], %s[%at], 4, %n {bypassL1}
      : memref<512xf32> to memref<256xf32, #gpu.address_space<workgroup>>
    %further = arith.addi %thread, %c128 : index
    %narrow = nvgpu.device_async_copy %x[%further], %s[%further], 1
      : memref<512xf32> to memref<256xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %wide, %narrow
    nvgpu.device_async_wait %group
    gpu.barrier
    %i = arith.muli %thread, %c2 : index
    %v = vector.load %s[%i] {alignment = 8 : i64}
      : memref<256xf32, #gpu.address_space<workgroup>>, vector<2xf32>
    %w = math.exp2 %v fastmath<afn> : vector<2xf32>
    vector.store %w, %x[%i] {alignment = 8 : i64} : memref<512xf32>, vector<2xf32>
    gpu.return
  }
}
