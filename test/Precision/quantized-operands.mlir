// RUN: binade-opt %s --binade-assign-precision=policy=fp8-current | FileCheck %s --check-prefix=ASSIGN
// RUN: binade-opt %s --binade-assign-precision=policy=fp8-current --binade-materialize-precision > %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: binade-opt %t.mlir --binade-materialize-precision | diff - %t.mlir
// RUN: binade-opt %t.mlir --binade-expand-composites | FileCheck %s --check-prefix=EXPAND

// A decision has a format for each operand of a matmul, by its kind: weights are
// arguments, gradients are computed in the backward pass; casts, data movement and
// saves between do not matter. No rule matches the last layer.

// ASSIGN-LABEL: func.func @step
// ASSIGN:         binade.matmul %{{.*}}, %arg1, %arg2 {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, operands = [#binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse>, #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse>, bf16], rule = "fp8-current.yaml:{{[0-9]+}}">}
// ASSIGN:         binade.matmul %{{.*}}, %arg3 {precision = #binade.precision<compute = bf16, accumulate = f32, result = bf16, rule =
// ASSIGN:         binade.matmul {{.*}}operands = [#binade.quantized<f8E5M2, {{[^>]*}}>, #binade.quantized<f8E4M3FN, {{[^>]*}}>]{{.*}} transpose_rhs
// ASSIGN:         binade.matmul {{.*}}operands = [#binade.quantized<f8E4M3FN, {{[^>]*}}>, #binade.quantized<f8E5M2, {{[^>]*}}>]{{.*}} transpose_lhs

// A tensor is quantized once, directly after its producer. Quantized values are saved for
// the backward pass, those of weights too.

// CHECK-LABEL: func.func @step
// CHECK:         %[[ROUNDED:.*]] = binade.cast %arg2 : (tensor<6xf32>) -> tensor<6xbf16>
// CHECK-DAG:     %[[W:.*]]:2 = binade.quantize %arg1 {format = #binade.quantized<f8E4M3FN, {{.*}}saturate}
// CHECK-DAG:     %[[W_KEPT:.*]] = binade.save %[[W]]#0
// CHECK-DAG:     %[[H:.*]]:2 = binade.quantize %{{.*}} {format = #binade.quantized<f8E4M3FN, {{.*}} : (tensor<4x8xf32>)
// CHECK-DAG:     %[[H_KEPT:.*]] = binade.save %[[H]]#0
// CHECK-DAG:     %[[HF:.*]] = binade.dequantize %[[H]]#0, %[[H]]#1 {{.*}} -> tensor<4x8xf32>
// CHECK-DAG:     %[[WF:.*]] = binade.dequantize %[[W]]#0, %[[W]]#1 {{.*}} -> tensor<8x6xf32>
// CHECK:         binade.matmul %[[HF]], %[[WF]], %[[ROUNDED]] {{.*}} -> tensor<4x6xbf16>
// CHECK:         %[[G:.*]]:2 = binade.quantize %{{.*}} {binade.phase = #binade.phase<backward>, format = #binade.quantized<f8E5M2
// CHECK-NOT:     binade.quantize
// CHECK-DAG:     %[[GF:.*]] = binade.dequantize %[[G]]#0, %[[G]]#1 {binade.phase = #binade.phase<backward>
// CHECK-DAG:     %[[WB:.*]] = binade.dequantize %[[W_KEPT]], %{{.*}} {binade.phase = #binade.phase<backward>
// CHECK:         binade.matmul %[[GF]], %[[WB]] {{.*}}transpose_rhs
// CHECK:         %[[HB:.*]] = binade.dequantize %[[H_KEPT]], %{{.*}} {binade.phase = #binade.phase<backward>
// CHECK:         binade.matmul %[[HB]], %{{.*}} {{.*}}transpose_lhs

// Quantized operands are multiplied in bf16; the scales multiply the sum before the bias
// is added, and the result is rounded once.

// EXPAND-LABEL: func.func @step
// EXPAND:         %[[ROUNDED:.*]] = binade.cast %arg2
// EXPAND:         %[[WS:.*]], %{{.*}} = binade.choose_scale
// EXPAND:         %[[W:.*]] = binade.encode %arg1
// EXPAND:         %[[HS:.*]], %{{.*}} = binade.choose_scale
// EXPAND:         %[[H:.*]] = binade.encode
// EXPAND-DAG:     %[[HC:.*]] = binade.cast %[[H]] : (tensor<4x8xf8E4M3FN>) -> tensor<4x8xbf16>
// EXPAND-DAG:     %[[WC:.*]] = binade.cast %[[W]] : (tensor<8x6xf8E4M3FN>) -> tensor<8x6xbf16>
// EXPAND:         %[[SUM:.*]] = binade.matmul %[[HC]], %[[WC]] {binade.fallback = {computed = "bf16", decided = "f8E4M3FN x f8E4M3FN", {{.*}}}} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
// EXPAND:         %[[S:.*]] = binade.mul %[[HS]], %[[WS]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
// EXPAND:         %[[SS:.*]] = binade.broadcast %[[S]]
// EXPAND:         %[[SCALED:.*]] = binade.mul %[[SUM]], %[[SS]]
// EXPAND:         %[[WIDE:.*]] = binade.cast %[[ROUNDED]] : (tensor<6xbf16>) -> tensor<6xf32>
// EXPAND:         %[[BIAS:.*]] = binade.broadcast %[[WIDE]]
// EXPAND:         %[[Y:.*]] = binade.add %[[SCALED]], %[[BIAS]]
// EXPAND:         binade.cast %[[Y]] : (tensor<4x6xf32>) -> tensor<4x6xbf16>

func.func @step(%x: tensor<4x8xf32> {binade.name = "x", binade.role = #binade.role<batch>},
                %w: tensor<8x6xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
                %bias: tensor<6xf32> {binade.name = "b", binade.role = #binade.role<parameter>},
                %last: tensor<6x5xf32> {binade.name = "last", binade.role = #binade.role<parameter>})
    -> (tensor<4x5xf32>, tensor<4x8xf32>, tensor<8x6xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
  %h = binade.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %kept = binade.save %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = binade.matmul %h, %w, %bias : (tensor<4x8xf32>, tensor<8x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %z = binade.matmul %y, %last : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %g = binade.exp %y {binade.phase = #binade.phase<backward>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %dh = binade.matmul %g, %w {transpose_rhs, binade.phase = #binade.phase<backward>}
    : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %dw = binade.matmul %kept, %g {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return %z, %dh, %dw : tensor<4x5xf32>, tensor<4x8xf32>, tensor<8x6xf32>
}
