// RUN: binade-opt %s --binade-expand-composites | FileCheck %s

// The attention kernels of a GPU have no operands for masks: such attention is decomposed, and its
// matmuls name the reason. Other attention is kept.

// CHECK-LABEL: func.func @step
// CHECK:         binade.matmul {{.*}}reason = "the attention kernels take no mask, bias, soft cap or dropout"
// CHECK:         binade.select
// CHECK:         binade.matmul
// CHECK:         binade.attention %
// CHECK-NOT:     binade.attention %
// CHECK:         return
module attributes {binade.target = #binade.target<"cuda:sm_80", piece = 16777216, attention = [f16, bf16], most = 128>} {
  func.func @step(%q: tensor<2x4x16xbf16>, %m: tensor<1x1x4xi1>)
      -> (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>) {
    %y, %lse = binade.attention %q, %q, %q mask(%m) {scale = 0.5 : f64}
      : (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<1x1x4xi1>)
        -> (tensor<2x4x16xbf16>, tensor<2x4xf32>)
    %z, %other = binade.attention %q, %q, %q {scale = 0.5 : f64}
      : (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>)
        -> (tensor<2x4x16xbf16>, tensor<2x4xf32>)
    return %y, %z : tensor<2x4x16xbf16>, tensor<2x4x16xbf16>
  }
}
