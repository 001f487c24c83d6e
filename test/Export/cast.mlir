// RUN: binade-translate --export-onnx %s -o %t.onnx
// RUN: %python %S/Inputs/print_onnx.py %t.onnx | FileCheck %s

// ONNX numbers its element types: 10 is FLOAT16, 16 BFLOAT16, 17 FLOAT8E4M3FN.
// Its Cast saturates by default, and has the attribute for formats of 8 bits
// alone.

// CHECK: step (float[4] x) => (float16[4] a, bfloat16[4] b, float8e4m3fn[4] c, float8e4m3fn[4] d) {
// CHECK: "[[A:.*]]" = Cast <to: int = 10> (x)
// CHECK: "[[B:.*]]" = Cast <to: int = 16> (x)
// CHECK: "[[C:.*]]" = Cast <to: int = 17, saturate: int = 0> (x)
// CHECK: "[[D:.*]]" = Cast <to: int = 17, saturate: int = 1> (x)
// CHECK: a = Identity ("[[A]]")
// CHECK: b = Identity ("[[B]]")
// CHECK: c = Identity ("[[C]]")
// CHECK: d = Identity ("[[D]]")
func.func @step(%x: tensor<4xf32> {binade.name = "x"})
    -> (tensor<4xf16> {binade.name = "a"}, tensor<4xbf16> {binade.name = "b"},
        tensor<4xf8E4M3FN> {binade.name = "c"}, tensor<4xf8E4M3FN> {binade.name = "d"}) {
  %a = binade.cast %x : (tensor<4xf32>) -> tensor<4xf16>
  %b = binade.cast %x : (tensor<4xf32>) -> tensor<4xbf16>
  %c = binade.cast %x : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  %d = binade.cast %x {saturate} : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  return %a, %b, %c, %d
    : tensor<4xf16>, tensor<4xbf16>, tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>
}
