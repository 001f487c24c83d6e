// RUN: split-file %s %t
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/fixed.yaml > %t/assigned.mlir
// RUN: FileCheck %s --check-prefix=ASSIGN < %t/assigned.mlir
// RUN: binade-opt %t/assigned.mlir --mlir-print-op-generic | binade-opt | diff - %t/assigned.mlir
// RUN: binade-opt %t/assigned.mlir --binade-materialize-precision > %t/fixed.mlir
// RUN: FileCheck %s < %t/fixed.mlir
// RUN: binade-opt %t/fixed.mlir --binade-materialize-precision | diff - %t/fixed.mlir
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/step.yaml --binade-materialize-precision \
// RUN:   | FileCheck %s --check-prefix=STEP

// Only the product with the key has the transform in its decision.

// ASSIGN-LABEL: func.func @step
// ASSIGN:         binade.matmul {{.*}}>], rule =
// ASSIGN:         binade.matmul {{.*}}result = bf16, rule ={{.*}} transpose_rhs
// ASSIGN:         binade.matmul {{.*}}>], transform = <hadamard = 16, signs = fixed>, rule = {{.*}} transpose_lhs

// Both operands are transformed along the axis that is summed over, directly after their
// producers, with one vector of signs. Quantized values are those of the transformed tensor;
// the same tensor is also quantized without the transform, for the other product.

// CHECK-LABEL: func.func @step
// CHECK:         %[[SIGNS:.*]] = binade.constant dense<[1.000000e+00, 1.000000e+00, 1.000000e+00, -1.000000e+00,
// CHECK:         %[[H:.*]] = binade.tanh %arg0
// CHECK-DAG:     binade.quantize %[[H]] {{.*}}per_block<1, 16>
// CHECK-DAG:     %[[HT:.*]] = binade.hadamard %[[H]] signs(%[[SIGNS]]) {axis = -2 : i64, size = 16 : i64} : (tensor<32x16xf32>, tensor<16xf32>) -> tensor<32x16xf32>
// CHECK-DAG:     %[[HQ:.*]]:3 = binade.quantize %[[HT]] {{.*}}per_block<16, 1>
// CHECK-DAG:     %[[HS:.*]] = binade.save %[[HQ]]#0
// CHECK:         %[[G:.*]] = binade.exp
// CHECK:         %[[GT:.*]] = binade.hadamard %[[G]] signs(%[[SIGNS]]) {axis = -2 : i64, binade.phase = #binade.phase<backward>, size = 16 : i64}
// CHECK:         %[[GQ:.*]]:3 = binade.quantize %[[GT]] {binade.phase = #binade.phase<backward>, {{.*}}per_block<16, 1>
// CHECK-NOT:     binade.hadamard
// CHECK-DAG:     %[[HD:.*]] = binade.dequantize %[[HS]], {{.*}} -> tensor<32x16xf32>
// CHECK-DAG:     %[[GD:.*]] = binade.dequantize %[[GQ]]#0, {{.*}} -> tensor<32x48xf32>
// CHECK:         binade.matmul %[[HD]], %[[GD]] {{.*}} transpose_lhs

// Signs of a step are drawn from its random state, and saved for the backward pass.

// STEP-LABEL: func.func @step
// STEP-SAME:    %[[RNG:[a-z0-9]*]]: tensor<2xi64> {{{[^}]*}}binade.name = "rng"
// STEP:         %[[U:.*]] = binade.random_uniform {{.*}}stream = 4294967263 : i64{{.*}} -> tensor<32xf32>
// STEP:         %[[POSITIVE:.*]] = binade.compare %[[U]], {{.*}}
// STEP:         %[[SIGNS:.*]] = binade.select %[[POSITIVE]]
// STEP:         %[[KEPT:.*]] = binade.save %[[SIGNS]]
// STEP:         binade.hadamard %{{.*}} signs(%[[SIGNS]]) {axis = -2 : i64, size = 32 : i64}
// STEP:         binade.hadamard %{{.*}} signs(%[[KEPT]]) {axis = -2 : i64, binade.phase = #binade.phase<backward>, size = 32 : i64}

//--- fixed.yaml
name: fixed
extends: bf16-amp
rules:
- match: { op: matmul, role: weight }
  quantize:
    fprop: { activation: nvfp4, weight: nvfp4-16x16 }
    wgrad: { activation: nvfp4, gradient: nvfp4, transform: { hadamard: 16 } }

//--- step.yaml
name: step
extends: bf16-amp
rules:
- match: { op: matmul, role: weight }
  quantize:
    wgrad: { activation: nvfp4, gradient: nvfp4, transform: { hadamard: 32, signs: step } }

//--- step.mlir
func.func @step(%x: tensor<32x16xf32> {binade.name = "x", binade.role = #binade.role<batch>},
                %w: tensor<16x48xf32> {binade.name = "w", binade.role = #binade.role<parameter>})
    -> (tensor<32x16xf32>, tensor<16x48xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %h = binade.tanh %x : (tensor<32x16xf32>) -> tensor<32x16xf32>
  %kept = binade.save %h : (tensor<32x16xf32>) -> tensor<32x16xf32>
  %y = binade.matmul %h, %w : (tensor<32x16xf32>, tensor<16x48xf32>) -> tensor<32x48xf32>
  %g = binade.exp %y {binade.phase = #binade.phase<backward>} : (tensor<32x48xf32>) -> tensor<32x48xf32>
  %dh = binade.matmul %g, %w {transpose_rhs, binade.phase = #binade.phase<backward>}
    : (tensor<32x48xf32>, tensor<16x48xf32>) -> tensor<32x16xf32>
  %dw = binade.matmul %kept, %g {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<32x16xf32>, tensor<32x48xf32>) -> tensor<16x48xf32>
  return %dh, %dw : tensor<32x16xf32>, tensor<16x48xf32>
}
