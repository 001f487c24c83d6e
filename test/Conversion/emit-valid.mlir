// RUN: binade-opt %s --binade-emit-kernels 2>&1 | FileCheck %s

// Emitted loops pass the verifier, and emitting them reports no diagnostics.

// CHECK-NOT:   error

// The constant offset of sliced rows is defined outside of all loops.
// CHECK-LABEL: func.func private @slice.items
// CHECK:         %[[START:.*]] = arith.constant 256 : index
// CHECK:         scf.for
// CHECK:           arith.addi %[[START]]
func.func private @slice(%x: tensor<4x384xf32>) -> tensor<4x128xf32> attributes {binade.kernel = #binade.schedule<permute>} {
  %0 = binade.slice %x {offsets = array<i64: 0, 256>, strides = array<i64: 1, 1>} : (tensor<4x384xf32>) -> tensor<4x128xf32>
  return %0 : tensor<4x128xf32>
}

// Groups of the length of a row are reduced as rows.
// CHECK-LABEL: func.func private @groups.items
// CHECK:         vector.reduction <maxui>
func.func private @groups(%x: tensor<8x64xf32>) -> (tensor<8x1xf32>, tensor<8x64xf8E4M3FN>) attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %0 = binade.abs %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = binade.group_max %0 {size = 64} : (tensor<8x64xf32>) -> tensor<8x1xf32>
  %2:2 = binade.choose_scale %1 {format = #binade.quantized<f8E4M3FN, per_block<1, 64>, scale = f32>} : (tensor<8x1xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>)
  %3 = binade.encode %x, %2#1 {format = #binade.quantized<f8E4M3FN, per_block<1, 64>, scale = f32>, saturate} : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf8E4M3FN>
  return %2#0, %3 : tensor<8x1xf32>, tensor<8x64xf8E4M3FN>
}
