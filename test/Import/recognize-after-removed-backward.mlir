// RUN: binade-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(binade-recognize-composites{after-removed-backward}))' | FileCheck %s

// The backward pass that read intermediate values was removed.

// CHECK-LABEL: func @forward
// CHECK-NEXT:    binade.gelu %arg0
// CHECK-NEXT:    return
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> attributes {binade.backward = "derived anew"} {
  %half = binade.constant dense<0.5> : tensor<4xf32>
  %one = binade.constant dense<1.0> : tensor<4xf32>
  %root2 = binade.constant dense<1.41421354> : tensor<4xf32>
  %0 = binade.mul %x, %half : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = binade.div %x, %root2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = binade.erf %1 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = binade.add %2, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = binade.mul %0, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// Import already recognized composites in a graph that had no backward pass.

// CHECK-LABEL: func @forward
// CHECK:         binade.erf
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = binade.constant dense<0.5> : tensor<4xf32>
  %one = binade.constant dense<1.0> : tensor<4xf32>
  %root2 = binade.constant dense<1.41421354> : tensor<4xf32>
  %0 = binade.mul %x, %half : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = binade.div %x, %root2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = binade.erf %1 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = binade.add %2, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = binade.mul %0, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// A backward pass that is kept still reads the intermediate values.

// CHECK-LABEL: func @gradient
// CHECK:         binade.erf
func.func @gradient(%x: tensor<4xf32>) -> tensor<4xf32> attributes {binade.backward = "the graph's own"} {
  %half = binade.constant dense<0.5> : tensor<4xf32>
  %one = binade.constant dense<1.0> : tensor<4xf32>
  %root2 = binade.constant dense<1.41421354> : tensor<4xf32>
  %0 = binade.mul %x, %half : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = binade.div %x, %root2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = binade.erf %1 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = binade.add %2, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = binade.mul %0, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}
