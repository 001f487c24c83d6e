// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// Attributes of a module, of arguments and results of a step, and of ops.

// CHECK: module attributes {binade.policy = #binade.policy<name = "fp32", hash = "00", text = "name: fp32">}
module attributes {binade.policy = #binade.policy<name = "fp32", hash = "00", text = "name: fp32">} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: binade.init = #binade.external<"w.bin", 0, 8, "{{a+}}"> : tensor<2xf32>, binade.name = "w", binade.role = #binade.role<parameter>
  // CHECK-SAME: binade.init = #binade.random<"normal", 0.000000e+00 : f64, 2.000000e-02 : f64>
  // CHECK-SAME: binade.init = dense<0> : tensor<i64>
  func.func @step(
      %w: tensor<2xf32> {binade.init = #binade.external<"w.bin", 0, 8, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"> : tensor<2xf32>,
                         binade.name = "w", binade.role = #binade.role<parameter>},
      %v: tensor<2xf32> {binade.init = #binade.random<"normal", 0.0, 0.02>,
                         binade.name = "v", binade.role = #binade.role<parameter>},
      %step: tensor<i64> {binade.init = dense<0> : tensor<i64>, binade.name = "step",
                          binade.role = #binade.role<step>})
      -> (tensor<2xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
    // CHECK: binade.add %arg0, %arg1 {binade.phase = #binade.phase<backward>}
    %0 = binade.add %w, %v {binade.phase = #binade.phase<backward>}
      : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
