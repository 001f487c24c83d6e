// RUN: split-file %s %t
// RUN: binade-translate %t/measured.mlir --kernels-to-ptx | FileCheck %t/measured.mlir
// RUN: binade-translate %t/groups.mlir --kernels-to-ptx | FileCheck %t/groups.mlir
// RUN: binade-translate %t/given.mlir --kernels-to-ptx | FileCheck %t/given.mlir
// RUN: binade-translate %t/roots.mlir --kernels-to-ptx | FileCheck %t/roots.mlir

//--- measured.mlir

// A row is divided by a scale computed from it: elements are multiplied by the reciprocal,
// without a division per element or the longer sequence of one. A division and a reciprocal
// per row compute the scale and its reciprocal.

// CHECK:         .visible .entry
// CHECK:         redux.sync
// CHECK:         div.rn.f32
// CHECK:         rcp.rn.f32
// CHECK-NOT:     {{div|rcp}}.rn
// CHECK-COUNT-16: fma.rn.f32
// CHECK-NOT:     {{div|rcp}}.rn
// CHECK-COUNT-4: cvt.rn.satfinite.e4m3x2.f32
// CHECK-NOT:     {{div|rcp}}.rn
func.func private @rows(%x: tensor<64x512xf32>) -> (tensor<64x512xf8E4M3FN>, tensor<64xf32>)
    attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %codes, %scales = binade.quantize %x
    {format = #binade.quantized<f8E4M3FN, per_row, scale = f32>, saturate}
    : (tensor<64x512xf32>) -> (tensor<64x512xf8E4M3FN>, tensor<64xf32>)
  return %codes, %scales : tensor<64x512xf8E4M3FN>, tensor<64xf32>
}

//--- groups.mlir

// Scales of groups with an offset are never small: their division by a constant is a
// multiplication with a correction, too.

// CHECK:         .visible .entry
// CHECK-NOT:     div.rn
// CHECK:         rcp.rn.f32
// CHECK-NOT:     {{div|rcp}}.rn
func.func private @groups(%x: tensor<64x512xf32>)
    -> (tensor<64x512xf8E4M3FN>, tensor<2048xbf16>)
    attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %codes, %scales = binade.quantize %x
    {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = bf16, rule = amax_offset>,
     saturate} : (tensor<64x512xf32>) -> (tensor<64x512xf8E4M3FN>, tensor<2048xbf16>)
  return %codes, %scales : tensor<64x512xf8E4M3FN>, tensor<2048xbf16>
}

//--- given.mlir

// Elements may be far larger than a given scale allows: a division computes quotients that
// are not finite, and all whose scale is not a normal number.

// CHECK:         .visible .entry
// CHECK:         rcp.rn.f32
// CHECK-NOT:     {{div|rcp}}.rn
// CHECK:         fma.rn.f32
// CHECK:         @%p{{.*}} bra
// CHECK-COUNT-4: div.rn.f32
func.func private @given(%x: tensor<1024xf32>, %s: tensor<f32>) -> tensor<1024xf8E4M3FN>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.encode %x, %s {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>,
      saturate} : (tensor<1024xf32>, tensor<f32>) -> tensor<1024xf8E4M3FN>
  return %y : tensor<1024xf8E4M3FN>
}

//--- roots.mlir

// An update that divides roots by one value multiplies instead, exactly in all bits. It
// divides only where that value or a root is out of range for this method.

// CHECK:         .visible .entry
// CHECK:         div.rn.f32 {{.*}}, %r[[BY:[0-9]+]];
// CHECK:         ld.global.v4
// CHECK-COUNT-4: sqrt.rn.f32
// CHECK-NOT:     {{div|rcp}}.rn
// CHECK-COUNT-8: fma.rn.f32
// CHECK-NOT:     {{div|rcp}}.rn
// CHECK:         @%p{{.*}} bra
// CHECK-COUNT-4: div.rn.f32 {{.*}}, %r[[BY]];
binade.optimizer @root {states = [], hypers = [#binade.setting<"by" = 1.0>]}
func.func private @root.scalars(%step: i64, %by: f64) -> f64 { return %by : f64 }
func.func private @root.update(%p: f32, %g: f32, %by: f32) -> f32 {
  %root = math.sqrt %g : f32
  %y = arith.divf %root, %by : f32
  return %y : f32
}
func.func private @update(%p: tensor<1024xf32>, %g: tensor<1024xf32>, %by: tensor<f32>)
    -> tensor<1024xf32> attributes {binade.kernel = #binade.schedule<multi_tensor>} {
  %y = binade.optimizer_update @root %p, %g scalars(%by)
    : (tensor<1024xf32>, tensor<1024xf32>, tensor<f32>) -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}
