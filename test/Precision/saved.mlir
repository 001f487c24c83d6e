// RUN: split-file %s %t
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/saved.yaml --binade-materialize-precision | FileCheck %s

// A rule for the producer of a value specifies its saved format; its users compute in
// their own formats.

// CHECK-LABEL: func.func @step
// CHECK:      %[[Y:.*]] = binade.exp %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[KEPT:.*]] = binade.save %[[Y]] {{.*}}compute = f32, result = bf16, rule = "{{.*}}saved.yaml:5"{{.*}} : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: binade.tanh
// CHECK-NEXT: %[[READ:.*]] = binade.cast %[[KEPT]] {binade.phase = #binade.phase<backward>} : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT: binade.mul %[[READ]], %[[READ]] {{.*}}compute = f32, result = f32{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

//--- saved.yaml
name: saved
narrow: bf16
wide: f32
rules:
  - { match: { op: exp }, saved: bf16 }
//--- step.mlir
func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = binade.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = binade.save %0 : (tensor<4xf32>) -> tensor<4xf32>
  %t = binade.tanh %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = binade.mul %1, %1 {binade.phase = #binade.phase<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2, %t : tensor<4xf32>, tensor<4xf32>
}
