// RUN: split-file %s %t
// RUN: not binade-translate --export-onnx %t/op.mlir -o %t/op.onnx 2>&1 | FileCheck %t/op.mlir
// RUN: not binade-translate --export-onnx %t/type.mlir -o %t/type.onnx 2>&1 | FileCheck %t/type.mlir

// All ops that ONNX cannot express are counted.

//--- op.mlir
// CHECK: op.mlir:{{[0-9]+}}:{{[0-9]+}}: error: has ops that cannot be written as ONNX: arith.addf (2)
func.func @step(%x: tensor<2xf32> {binade.name = "x"})
    -> (tensor<2xf32> {binade.name = "y"}) {
  %0 = arith.addf %x, %x : tensor<2xf32>
  %1 = arith.addf %0, %x : tensor<2xf32>
  return %1 : tensor<2xf32>
}

//--- type.mlir
// CHECK: type.mlir:{{[0-9]+}}:{{[0-9]+}}: error: ONNX has no type 'tensor<2xindex>'
func.func @step(%x: tensor<2xindex> {binade.name = "x"})
    -> (tensor<2xindex> {binade.name = "y"}) {
  return %x : tensor<2xindex>
}
