// RUN: split-file %s %t
// RUN: binade-opt %t/step.mlir --binade-assign-precision=policy=%t/saved.yaml --binade-materialize-precision > %t/out.mlir
// RUN: FileCheck %s < %t/out.mlir
// RUN: binade-opt %t/out.mlir --binade-materialize-precision | diff - %t/out.mlir

// Quantized values and scales are saved in place of a value. Users in the backward pass
// dequantize them; users in the forward pass read the value itself. The other results of
// the op are small, and are saved unchanged.

// CHECK-LABEL: func.func @step
// CHECK:         %[[Y:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = binade.layer_norm
// CHECK:         %[[Q:.*]]:2 = binade.quantize %[[Y]] {format = #binade.quantized<f8E4M3FN, per_group<16>, scale = bf16, rule = amax_offset>, saturate}
// CHECK-DAG:     %[[CODES:.*]] = binade.save %[[Q]]#0
// CHECK-DAG:     %[[SCALES:.*]] = binade.save %[[Q]]#1
// CHECK:         binade.save %[[RSTD]] {{.*}} -> tensor<4xf32>
// CHECK:         binade.tanh %[[Y]]
// CHECK:         %[[READ:.*]] = binade.dequantize %[[CODES]], %[[SCALES]] {binade.phase = #binade.phase<backward>
// CHECK-NEXT:    binade.mul %[[READ]], %[[READ]]

// A reshape between the value and the save does not prevent this.

// CHECK:         %[[E:.*]] = binade.exp
// CHECK:         %[[V:.*]] = binade.reshape %[[E]]
// CHECK:         binade.quantize %[[V]]

// A matmul whose operand is quantized to another format reads the original value, so that
// the format for saved values would have no user and is not applied.

// CHECK:         %[[S:.*]] = binade.sigmoid
// CHECK-NOT:     binade.quantize {{.*}}per_group
// CHECK:         %[[P:.*]]:2 = binade.quantize %[[S]] {format = #binade.quantized<f8E4M3FN, per_tensor
// CHECK-DAG:     %[[P_KEPT:.*]] = binade.save %[[P]]#0
// CHECK-DAG:     %[[LEFT:.*]] = binade.dequantize %[[P_KEPT]]
// CHECK:         binade.matmul %[[LEFT]]

//--- saved.yaml
name: saved
narrow: bf16
wide: f32
rules:
- { match: { op: [layer_norm, exp, sigmoid] }, saved: coat-group }
- { match: { op: matmul }, quantize: { activation: coat-tensor } }
//--- step.mlir
func.func @step(%x: tensor<4x32xf32>, %s: tensor<32xf32>, %g: tensor<4x8xf32>)
    -> (tensor<4x32xf32>, tensor<4xf32>, tensor<4x32xf32>, tensor<8x16xf32>, tensor<32x8xf32>) {
  %y, %mean, %rstd = binade.layer_norm %x, %s {epsilon = 1.0e-5 : f64}
    : (tensor<4x32xf32>, tensor<32xf32>) -> (tensor<4x32xf32>, tensor<4xf32>, tensor<4xf32>)
  %kept = binade.save %y : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %few = binade.save %rstd : (tensor<4xf32>) -> tensor<4xf32>
  %t = binade.tanh %y : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %z = binade.mul %kept, %kept {binade.phase = #binade.phase<backward>} : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %e = binade.exp %x : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %v = binade.reshape %e : (tensor<4x32xf32>) -> tensor<8x16xf32>
  %viewed = binade.save %v : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %n = binade.neg %viewed {binade.phase = #binade.phase<backward>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %p = binade.sigmoid %x : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %read = binade.save %p : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %dw = binade.matmul %read, %g {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<4x32xf32>, tensor<4x8xf32>) -> tensor<32x8xf32>
  return %z, %few, %t, %n, %dw
    : tensor<4x32xf32>, tensor<4xf32>, tensor<4x32xf32>, tensor<8x16xf32>, tensor<32x8xf32>
}
