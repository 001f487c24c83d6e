// RUN: split-file %s %t
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/p.yaml > %t/assigned.mlir
// RUN: FileCheck %s --check-prefix=ASSIGN < %t/assigned.mlir
// RUN: binade-opt %t/assigned.mlir --mlir-print-op-generic | binade-opt | diff - %t/assigned.mlir
// RUN: binade-opt %t/assigned.mlir --binade-materialize-precision > %t/scaled.mlir
// RUN: FileCheck %s < %t/scaled.mlir
// RUN: binade-opt %t/scaled.mlir --binade-materialize-precision | diff - %t/scaled.mlir
// RUN: not binade-opt %t/wrong.mlir 2>&1 | FileCheck %s --check-prefix=WRONG

// The input is expected to have magnitude 1, and the weight has a standard deviation of
// 2^-4. A product over 64 elements has magnitude 1 * 2^-4 * 8 = 2^-1.

// ASSIGN-LABEL: func.func @step
// ASSIGN:         binade.matmul %arg0, %arg1, %arg2
// ASSIGN-SAME:      operands = [{exponent = 0 : i64, format = f8E4M3FN, rule = "input"},
// ASSIGN-SAME:                  {exponent = 4 : i64, format = f8E4M3FN, rule = "initial values"}, unit]
// ASSIGN:         binade.matmul {{.*}}phase<backward>
// ASSIGN-SAME:      {exponent = 0 : i64, format = f8E4M3FN, rule = "input"}
// ASSIGN-SAME:      {exponent = 1 : i64, format = f8E5M2, rule = "mul"}

// An operand is scaled and rounded once; the backward pass reads the saved copy. The bias is
// added at the scale of the product.

// CHECK-LABEL: func.func @step
// CHECK-DAG:     %[[X:.*]] = binade.cast %arg0 {saturate} : (tensor<32x64xf32>) -> tensor<32x64xf8E4M3FN>
// CHECK-DAG:     %[[XS:.*]] = binade.save %[[X]]
// CHECK-DAG:     %[[UP:.*]] = binade.constant dense<1.600000e+01> : tensor<64x16xf32>
// CHECK-DAG:     %[[W:.*]] = binade.mul %arg1, %[[UP]]
// CHECK-DAG:     %[[WC:.*]] = binade.cast %[[W]] {saturate} : (tensor<64x16xf32>) -> tensor<64x16xf8E4M3FN>
// CHECK-DAG:     %[[B:.*]] = binade.mul %arg2, %{{.*}} : (tensor<16xf32>, tensor<16xf32>)
// CHECK-DAG:     %[[XR:.*]] = binade.cast %[[X]] : (tensor<32x64xf8E4M3FN>) -> tensor<32x64xbf16>
// CHECK-DAG:     %[[WR:.*]] = binade.cast %[[WC]] : (tensor<64x16xf8E4M3FN>) -> tensor<64x16xbf16>
// CHECK:         %[[Y:.*]] = binade.matmul %[[XR]], %[[WR]], %[[B]]
// CHECK-NOT:     operands
// CHECK:         %[[DOWN:.*]] = binade.constant dense<6.250000e-02> : tensor<32x16xbf16>
// CHECK:         binade.mul %[[Y]], %[[DOWN]] : (tensor<32x16xbf16>, tensor<32x16xbf16>)
// CHECK:         %[[G:.*]] = binade.cast %{{.*}} {binade.phase = #binade.phase<backward>, saturate} : {{.*}} -> tensor<32x16xf8E5M2>
// CHECK-DAG:     %[[GR:.*]] = binade.cast %[[G]] {binade.phase = #binade.phase<backward>} : {{.*}} -> tensor<32x16xbf16>
// CHECK-DAG:     %[[XB:.*]] = binade.cast %[[XS]] {binade.phase = #binade.phase<backward>} : {{.*}} -> tensor<32x64xbf16>
// CHECK:         binade.matmul %[[XB]], %[[GR]] {{.*}}transpose_lhs
// CHECK:         binade.mul {{.*}}phase<backward>

// RUN: binade-opt %t/adds.mlir --binade-assign-precision=policy=%t/p.yaml \
// RUN:   | FileCheck %s --check-prefix=ADDS

// A residual add adds a value to one that depends on it, or to one that depends on the same
// value; a sum of different inputs is an ordinary add. Magnitudes are those of independent values.

// ADDS-LABEL: func.func @step
// ADDS:         binade.matmul %arg0, %arg2 {{.*}}rule = "input"
// ADDS:         binade.matmul {{.*}}rule = "add"
// ADDS:         binade.matmul {{.*}}exponent = -1 : i64, {{.*}}rule = "residual add"

// WRONG: error: the exponent of a scale is within -60 and 60, not 61

//--- p.yaml
name: p
narrow: bf16
wide: f32
rules:
- match: { op: matmul, role: weight }
  unit_scale: { activation: f8E4M3FN, weight: f8E4M3FN, gradient: f8E5M2 }

//--- step.mlir
func.func @step(
    %x: tensor<32x64xf32> {binade.role = #binade.role<batch>, binade.name = "x"},
    %w: tensor<64x16xf32> {binade.role = #binade.role<parameter>, binade.name = "w",
                           binade.init = #binade.random<"normal", 0.0, 0.0625>},
    %b: tensor<16xf32> {binade.role = #binade.role<parameter>, binade.name = "b",
                        binade.init = dense<0.0> : tensor<16xf32>})
    -> (tensor<64x16xf32> {binade.role = #binade.role<gradient>, binade.name = "w"}) {
  %sx = binade.save %x : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %y = binade.matmul %x, %w, %b
      : (tensor<32x64xf32>, tensor<64x16xf32>, tensor<16xf32>) -> tensor<32x16xf32>
  %sy = binade.save %y : (tensor<32x16xf32>) -> tensor<32x16xf32>
  %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
  %all = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>}
      : (tensor<f32>) -> tensor<32x16xf32>
  %dy = binade.mul %sy, %all {binade.phase = #binade.phase<backward>}
      : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %dw = binade.matmul %sx, %dy {transpose_lhs, binade.phase = #binade.phase<backward>}
      : (tensor<32x64xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  return %dw : tensor<64x16xf32>
}

//--- wrong.mlir
#wrong = #binade.precision<compute = f16, accumulate = f32, result = f32,
  operands = [{exponent = 61 : i64, format = f16, rule = "pin"}, unit]>
func.func @step(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y = binade.matmul %x, %x {precision = #wrong}
      : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

//--- adds.mlir
func.func @step(
    %x: tensor<32x64xf32> {binade.role = #binade.role<batch>, binade.name = "x"},
    %z: tensor<32x64xf32> {binade.role = #binade.role<batch>, binade.name = "z"},
    %w: tensor<64x64xf32> {binade.role = #binade.role<parameter>, binade.name = "w",
                           binade.init = #binade.random<"normal", 0.0, 0.25>})
    -> (tensor<32x64xf32> {binade.role = #binade.role<output>, binade.name = "a"},
        tensor<32x64xf32> {binade.role = #binade.role<output>, binade.name = "b"}) {
  %branch = binade.matmul %x, %w
      : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %sum = binade.add %x, %z
      : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %a = binade.matmul %sum, %w
      : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %residual = binade.add %x, %branch
      : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %b = binade.matmul %residual, %w
      : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  return %a, %b : tensor<32x64xf32>, tensor<32x64xf32>
}
