// RUN: binade-opt %s '--binade-insert-requested-statistics=requests=output/node:sqnr,underflow' | FileCheck %s

// The first format that a value is rounded to is its format, whatever the order of its uses.

// CHECK-LABEL: func.func @step
// CHECK:         %[[Y:.*]] = binade.neg %arg0
// CHECK-NEXT:    %[[F16:.*]] = binade.cast %[[Y]] : (tensor<4xf32>) -> tensor<4xf16>
// CHECK:         binade.cast %[[F16]] {binade.every = 1 : i64} : (tensor<4xf16>) -> tensor<4xf32>
// Half of the smallest f16 value.
// CHECK:         dense<2.98023224E-8>
func.func @step(
    %x: tensor<4xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<4xf16> {binade.role = #binade.role<output>, binade.name = "a"},
        tensor<4xbf16> {binade.role = #binade.role<output>, binade.name = "b"}) {
  %y = binade.neg %x : (tensor<4xf32>) -> tensor<4xf32> loc("/node")
  %a = binade.cast %y : (tensor<4xf32>) -> tensor<4xf16> loc("/a")
  %b = binade.cast %y : (tensor<4xf32>) -> tensor<4xbf16> loc("/b")
  return %a, %b : tensor<4xf16>, tensor<4xbf16>
}
