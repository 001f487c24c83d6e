func.func @f() -> (tensor<3xf32> {binade.name = "x"}) {
  %x = binade.constant dense<[1.0, 4.0, 0x7FC00000]> : tensor<3xf32>
  return %x : tensor<3xf32>
}
