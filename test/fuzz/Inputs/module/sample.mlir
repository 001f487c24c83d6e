func.func @step(%w: tensor<4x3xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
    %x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %0 = binade.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = binade.constant dense<[[0.5, -1.0, 2.0]]> : tensor<1x3xf32>
  return %0 : tensor<2x3xf32>
}
