// RUN: binade-translate %s --gpu-to-ptx --chip=sm_80 | FileCheck %s --implicit-check-not=approx --implicit-check-not=ftz --implicit-check-not=.local
// RUN: binade-translate %s --gpu-to-ptx --chip=sm_100 | FileCheck %s --implicit-check-not=approx --implicit-check-not=ftz --implicit-check-not=.local

// Each operation rounds once, to nearest, with subnormals: multiplications and additions are
// fused only where the IR fuses them, and the maximum of NaN and a value is NaN.

// CHECK:     .visible .entry arithmetic(
// CHECK:     .reqntid 32, 1, 1
// CHECK:     ld.global{{(.nc)?}}.b32 [[X:%r[0-9]+]]
// CHECK: mul.rn.f32 [[P:%r[0-9]+]], [[X]], [[X]]
// CHECK: add.rn.f32 [[S:%r[0-9]+]], [[X]], [[P]]
// CHECK: fma.rn.f32 [[F:%r[0-9]+]], [[S]], [[X]], [[P]]
// CHECK: div.rn.f32 [[D:%r[0-9]+]], [[F]], [[S]]
// CHECK: rcp.rn.f32 [[I:%r[0-9]+]], [[D]]
// CHECK: sqrt.rn.f32 [[R:%r[0-9]+]], [[I]]
// CHECK: max.NaN.f32 [[M:%r[0-9]+]], [[R]], [[X]]
// CHECK: cvt.rni.f32.f32 [[E:%r[0-9]+]], [[M]]
// CHECK:     st.global.b32 {{.*}}, [[E]]
// CHECK-NOT: fma
gpu.module @kernels {
  gpu.func @arithmetic(%x: memref<32xf32>, %y: memref<32xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %one = arith.constant 1.0 : f32
    %thread = gpu.thread_id x
    %v = memref.load %x[%thread] : memref<32xf32>
    %product = arith.mulf %v, %v : f32
    %sum = arith.addf %product, %v : f32
    %fused = math.fma %sum, %v, %product : f32
    %quotient = arith.divf %fused, %sum : f32
    %reciprocal = arith.divf %one, %quotient : f32
    %root = math.sqrt %reciprocal : f32
    %most = arith.maximumf %root, %v : f32
    %whole = math.roundeven %most : f32
    memref.store %whole, %y[%thread] : memref<32xf32>
    gpu.return
  }
}
