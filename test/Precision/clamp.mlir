// RUN: binade-opt %s --binade-materialize-precision | FileCheck %s

// One clamp is inserted between an op and all its users; f32 results stay f32.

// CHECK-LABEL: func.func @step
// CHECK:         %[[Y:.*]] = binade.exp {{.*}} {precision = #binade.precision<compute = f16, result = f16>} : (tensor<4xf16>) -> tensor<4xf16>
// CHECK-DAG:     %[[LIMIT:.*]] = binade.constant dense<6.550400e+04> : tensor<4xf16>
// CHECK-DAG:     %[[LOW:.*]] = binade.neg %[[LIMIT]]
// CHECK:         %[[A:.*]] = binade.max %[[Y]], %[[LOW]]
// CHECK-NEXT:    %[[B:.*]] = binade.min %[[A]], %[[LIMIT]]
// CHECK-NEXT:    %[[C:.*]] = binade.cast %[[B]] : (tensor<4xf16>) -> tensor<4xf32>
// CHECK:         %[[N:.*]] = binade.neg %[[C]]
// CHECK-NEXT:    return %[[C]], %[[N]]
module attributes {binade.policy = #binade.policy<name = "p", hash = "", text = "{name: p, narrow: f16, wide: f32}">} {
  func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %y = binade.exp %x {precision = #binade.precision<compute = f16, result = f16, clamp = <infinities>>}
      : (tensor<4xf32>) -> tensor<4xf32>
    %n = binade.neg %y {precision = #binade.precision<compute = f32, result = f32>}
      : (tensor<4xf32>) -> tensor<4xf32>
    return %y, %n : tensor<4xf32>, tensor<4xf32>
  }
}
