// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func private @double
// CHECK-SAME:    attributes {binade.kernel = #binade.schedule<elementwise>}
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

func.func private @statistics(%g: tensor<16xf32>) -> (tensor<f64>, tensor<i1>)
    attributes {binade.kernel = #binade.schedule<multi_tensor>} {
  %s, %f = binade.gradient_statistics %g : (tensor<16xf32>) -> (tensor<f64>, tensor<i1>)
  return %s, %f : tensor<f64>, tensor<i1>
}

// CHECK-LABEL: func.func @launches
func.func @launches(%x: tensor<4xf32>, %y: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<f64>, tensor<i1>) {
  // CHECK-NEXT: binade.launch [@double](%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = binade.launch [@double](%x) : (tensor<4xf32>) -> tensor<4xf32>
  // Tensors of any shape where the kernel has a vector; what all share, once.
  // CHECK-NEXT: binade.launch [@statistics, @statistics](%arg0, %arg1) : (tensor<4xf32>, tensor<2x3xf32>) -> (tensor<f64>, tensor<i1>)
  %1:2 = binade.launch [@statistics, @statistics](%x, %y)
    : (tensor<4xf32>, tensor<2x3xf32>) -> (tensor<f64>, tensor<i1>)
  return %0, %1#0, %1#1 : tensor<4xf32>, tensor<f64>, tensor<i1>
}
