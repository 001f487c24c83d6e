// RUN: binade-translate %s --gpu-to-ptx --chip=sm_80 | FileCheck %s
// RUN: binade-opt %s --binade-target-cuda-pipeline=chip=sm_90 | FileCheck %s --check-prefix=NVVM

// A warp multiplies bf16 and f16 matrices with f32 accumulation. The instruction has the
// operand format, although narrow floats are moved as integers.

// CHECK-LABEL: .visible .entry bf16(
// CHECK:         ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK:         ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16
// CHECK:         mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT:     .local
// CHECK:         st.global.v4.b32

// NVVM-LABEL:  llvm.func @bf16
// NVVM:          nvvm.mma.sync A[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] B[%{{.*}}, %{{.*}}] C[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}]
// NVVM-SAME:       #nvvm.mma_layout<row>{{.*}}#nvvm.mma_layout<col>{{.*}}#nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>
// NVVM-SAME:       (i32, i32, f32)
gpu.module @kernels {
  gpu.func @bf16(%x: memref<512xbf16> {llvm.noalias}, %y: memref<128xf32> {llvm.noalias})
      workgroup(%s: memref<512xbf16, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c8 : index
    %v = vector.load %x[%at] {alignment = 16 : i64} : memref<512xbf16>, vector<8xbf16>
    vector.store %v, %s[%at] {alignment = 16 : i64} : memref<512xbf16, #gpu.address_space<workgroup>>, vector<8xbf16>
    gpu.barrier
    %a = nvgpu.ldmatrix %s[%at] {numTiles = 4 : i32, transpose = false}
        : memref<512xbf16, #gpu.address_space<workgroup>> -> vector<4x2xbf16>
    %b = nvgpu.ldmatrix %s[%at] {numTiles = 2 : i32, transpose = true}
        : memref<512xbf16, #gpu.address_space<workgroup>> -> vector<2x2xbf16>
    %c = arith.constant dense<0.0> : vector<2x2xf32>
    %d = nvgpu.mma.sync (%a, %b, %c) {mmaShape = [16, 8, 16]}
        : (vector<4x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %sums = vector.shape_cast %d : vector<2x2xf32> to vector<4xf32>
    %to = arith.muli %thread, %c4 : index
    vector.store %sums, %y[%to] {alignment = 16 : i64} : memref<128xf32>, vector<4xf32>
    gpu.return
  }

// CHECK-LABEL: .visible .entry f16(
// CHECK:         mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// NVVM-LABEL:  llvm.func @f16
// NVVM:          nvvm.mma.sync
// NVVM-SAME:       (vector<2xf16>, vector<2xf16>, f32)
  gpu.func @f16(%x: memref<256xf16> {llvm.noalias}, %y: memref<128xf32> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %thread = gpu.thread_id x
    %at = arith.muli %thread, %c8 : index
    %v = vector.load %x[%at] {alignment = 16 : i64} : memref<256xf16>, vector<8xf16>
    %a = vector.shape_cast %v : vector<8xf16> to vector<4x2xf16>
    %b = vector.extract_strided_slice %a {offsets = [2], sizes = [2], strides = [1]}
        : vector<4x2xf16> to vector<2x2xf16>
    %c = arith.constant dense<1.0> : vector<2x2xf32>
    %d = nvgpu.mma.sync (%a, %b, %c) {mmaShape = [16, 8, 16]}
        : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %sums = vector.shape_cast %d : vector<2x2xf32> to vector<4xf32>
    %to = arith.muli %thread, %c4 : index
    vector.store %sums, %y[%to] {alignment = 16 : i64} : memref<128xf32>, vector<4xf32>
    gpu.return
  }
}
