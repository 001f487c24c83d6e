// RUN: binade-opt %s --binade-expand-composites --binade-form-kernels | FileCheck %s

// The kernel that computes a tensor finds the largest magnitudes of groups along columns, and
// stores no magnitudes: the largest of the tensor is that of the groups.

#column = #binade.quantized<f4E2M1FN, per_block<16, 1>, scale = f8E4M3FN, tensor_scale = f32,
                            rule = rounded_inverse>

// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[X:.*]]:2 = binade.launch [@tanh_group_max_0](%arg0) : (tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<4x128xf32>)
// CHECK-NEXT:    %[[T:.*]]:2 = binade.launch [@reduce_max_mul_1](%[[X]]#1)
// CHECK-NEXT:    %[[S:.*]]:2 = binade.launch [@mul_min_2](%[[X]]#1, %[[T]]#1, %[[T]]#0)
// CHECK-NEXT:    %[[C:.*]] = binade.launch [@encode_3](%[[X]]#0, %[[S]]#1)
// CHECK-NEXT:    return %[[C]], %[[S]]#0, %[[T]]#0
func.func @step(%x: tensor<64x128xf32>)
    -> (tensor<64x128xi8>, tensor<4x128xf8E4M3FN>, tensor<f32>) {
  %0 = binade.tanh %x : (tensor<64x128xf32>) -> tensor<64x128xf32>
  %1:3 = binade.quantize %0 {format = #column}
    : (tensor<64x128xf32>) -> (tensor<64x128xi8>, tensor<4x128xf8E4M3FN>, tensor<f32>)
  return %1#0, %1#1, %1#2 : tensor<64x128xi8>, tensor<4x128xf8E4M3FN>, tensor<f32>
}
