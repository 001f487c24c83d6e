// RUN: binade-translate --export-onnx %s -o %t.onnx
// RUN: %python %S/Inputs/print_onnx.py %t.onnx | FileCheck %s

// Nodes have the names of locations, or of their op types. Inputs and outputs
// have the names of the ports: an output is an Identity, whose operand keeps
// its own name.

// CHECK: opset_import: ["" : 20]
// CHECK: step (float[2,3] x, float[3,4] w) => (float[2,4] y) {
// CHECK-NEXT: ["layer/MatMul"] "[[H:.*]]" = MatMul (x, w)
// CHECK-NEXT: [Relu] "[[Y:.*]]" = Relu ("[[H]]")
// CHECK-NEXT: [Identity] y = Identity ("[[Y]]")
// CHECK-NEXT: }
func.func @step(%x: tensor<2x3xf32> {binade.name = "x"},
                %w: tensor<3x4xf32> {binade.name = "w"})
    -> (tensor<2x4xf32> {binade.name = "y"}) {
  %h = binade.matmul %x, %w
    : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32> loc("layer/MatMul")
  %y = binade.relu %h : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
