// RUN: binade-opt %s -o %t.once.mlir
// RUN: binade-opt %t.once.mlir -o %t.twice.mlir && cmp %t.once.mlir %t.twice.mlir
// RUN: binade-opt %s --mlir-print-op-generic | binade-opt -o %t.generic.mlir
// RUN: cmp %t.once.mlir %t.generic.mlir
// RUN: FileCheck %s --input-file %t.once.mlir

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<4x8xbf16>) -> tensor<4x8xf32> {
  // CHECK-NEXT: binade.softmax %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %0 = binade.softmax %x : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  // CHECK-NEXT: binade.softmax_grad %arg0, %0
  %1 = binade.softmax_grad %x, %0 : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  // CHECK-NEXT: binade.log_softmax %1 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %2 = binade.log_softmax %1 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.log_softmax_grad %2, %2
  %3 = binade.log_softmax_grad %2, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %bias: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: binade.layer_norm %arg0, %arg1, %arg2 {epsilon = 1.000000e-05 : f64}
  // CHECK-SAME: -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %y, %mean, %rstd = binade.layer_norm %x, %scale, %bias {epsilon = 1.0e-5 : f64}
    : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK-NEXT: binade.layer_norm_grad %y, %arg0, %arg1, %mean, %rstd
  %dx = binade.layer_norm_grad %y, %x, %scale, %mean, %rstd
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.layer_norm_param_grad %y, %arg0, %mean, %rstd
  %dscale, %dbias = binade.layer_norm_param_grad %y, %x, %mean, %rstd
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %dx, %dscale, %dbias : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @layer_norm_without_bias
func.func @layer_norm_without_bias(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: binade.layer_norm %arg0, %arg1 {
  %y, %mean, %rstd = binade.layer_norm %x, %scale {epsilon = 1.0e-5 : f64}
    : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: binade.rms_norm %arg0, %arg1 {epsilon = 1.000000e-05 : f64}
  // CHECK-SAME: -> (tensor<4x8xf32>, tensor<4xf32>)
  %y, %rstd = binade.rms_norm %x, %scale {epsilon = 1.0e-5 : f64}
    : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  // CHECK-NEXT: binade.rms_norm_grad %y, %arg0, %arg1, %rstd
  %dx = binade.rms_norm_grad %y, %x, %scale, %rstd
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: binade.rms_norm_scale_grad %y, %arg0, %rstd
  %dscale = binade.rms_norm_scale_grad %y, %x, %rstd
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %dx, %dscale : tensor<4x8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @batch_norm
func.func @batch_norm(%x: tensor<4x3x5xf32>, %scale: tensor<3xf32>, %bias: tensor<3xf32>)
    -> (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>) {
  // CHECK-NEXT: binade.batch_norm_statistics %arg0 {axis = 1 : i64} : (tensor<4x3x5xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  %mean, %variance = binade.batch_norm_statistics %x {axis = 1 : i64}
    : (tensor<4x3x5xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  // CHECK-NEXT: %[[Y:.*]] = binade.batch_norm %arg0, %arg1, %arg2, %mean, %variance {axis = 1 : i64, epsilon = 1.000000e-05 : f64, training}
  %y = binade.batch_norm %x, %scale, %bias, %mean, %variance {axis = 1 : i64, epsilon = 1.0e-5 : f64, training}
    : (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3x5xf32>
  // CHECK-NEXT: binade.batch_norm_param_grad %[[Y]], %arg0, %mean, %variance
  %dscale, %dbias = binade.batch_norm_param_grad %y, %x, %mean, %variance {axis = 1 : i64, epsilon = 1.0e-5 : f64}
    : (tensor<4x3x5xf32>, tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  // CHECK-NEXT: binade.batch_norm_grad %[[Y]], %arg0, %arg1, %mean, %variance, %dscale, %dbias
  %dx = binade.batch_norm_grad %y, %x, %scale, %mean, %variance, %dscale, %dbias
      {axis = 1 : i64, epsilon = 1.0e-5 : f64, training}
    : (tensor<4x3x5xf32>, tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
       tensor<3xf32>) -> tensor<4x3x5xf32>
  return %dx, %dscale, %dbias : tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>
}
