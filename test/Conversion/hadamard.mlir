// RUN: binade-opt %s --binade-emit-kernels | FileCheck %s

// The rows of a group of a Hadamard transform are computed together, without a loop over
// them: 16 loads, and 64 sums and differences, for a vector of columns.

// CHECK-LABEL: func.func private @columns.items
// CHECK-COUNT-16: vector.load %arg0
// CHECK-NOT:     vector.load %arg0
// CHECK-COUNT-16: vector.store
// CHECK:         return
func.func private @columns(%x: tensor<64x256xbf16>) -> (tensor<64x256xbf16>, tensor<4x256xf32>)
    attributes {binade.kernel = #binade.schedule<column_reduction>} {
  %0 = binade.hadamard %x {axis = -2 : i64, size = 16 : i64} : (tensor<64x256xbf16>) -> tensor<64x256xbf16>
  %1 = binade.cast %0 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
  %2 = binade.abs %1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %3 = binade.group_max %2 {size = 16, axis = -2} : (tensor<64x256xf32>) -> tensor<4x256xf32>
  return %0, %3 : tensor<64x256xbf16>, tensor<4x256xf32>
}
