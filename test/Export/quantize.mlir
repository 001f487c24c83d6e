// RUN: binade-translate --export-onnx %s -o %t.onnx
// RUN: %python %S/Inputs/print_onnx.py %t.onnx | FileCheck %s

// A tensor with one scale: its absmax divided by 448, the largest value of
// E4M3. A NaN in the tensor makes the scale NaN, which ReduceMax alone does
// not guarantee.

// CHECK: step (float[2,64] x) => (float[2,64] y)
// CHECK: float [[MAX:[a-z0-9_]+]] = {448}
// CHECK: "[[ABS:.*]]" = Abs (x)
// CHECK: "[[ABSMAX:.*]]" = ReduceMax <keepdims: int = 0> ("[[ABS]]",
// CHECK: IsNaN ("[[ABS]]")
// CHECK: "[[CHECKED:.*]]" = Where ({{.*}}, {{.*}}, "[[ABSMAX]]")
// CHECK: Div ("[[CHECKED]]", [[MAX]])
// CHECK: "[[SCALE:.*]]" = Where (
// CHECK: "[[QUOTIENT:.*]]" = Div (x, "[[SCALE]]")
// CHECK: "[[CODES:.*]]" = Cast <to: int = 17, saturate: int = 1> ("[[QUOTIENT]]")
// CHECK: "[[WIDE:.*]]" = Cast <to: int = 1> ("[[CODES]]")
// CHECK: "[[Y:.*]]" = Mul ("[[WIDE]]", "[[SCALE]]")
// CHECK: y = Identity ("[[Y]]")
func.func @step(%x: tensor<2x64xf32> {binade.name = "x"})
    -> (tensor<2x64xf32> {binade.name = "y"}) {
  %codes, %scale = binade.quantize %x
    {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>, saturate}
    : (tensor<2x64xf32>) -> (tensor<2x64xf8E4M3FN>, tensor<f32>)
  %y = binade.dequantize %codes, %scale
    {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>}
    : (tensor<2x64xf8E4M3FN>, tensor<f32>) -> tensor<2x64xf32>
  return %y : tensor<2x64xf32>
}
