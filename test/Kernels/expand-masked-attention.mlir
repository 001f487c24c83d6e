// RUN: binade-opt %s --binade-expand-composites | FileCheck %s

// The attention kernels of a GPU compute masks, biases, a soft cap and dropout: such attention is
// kept, and so are its gradients, with or without those of biases. Otherwise attention is
// decomposed, and its matmuls name the reason.

// CHECK-LABEL: func.func @step
// CHECK:         %[[Y:.*]], %[[LSE:.*]] = binade.attention %{{.*}} biases(%{{.*}}) mask(%{{.*}}) rng(
// CHECK:         binade.attention_grad {{.*}} biases(%{{.*}}) mask(%{{.*}}) rng(
// CHECK:         binade.attention_grad {{.*}} biases(%{{.*}}) {scale
// CHECK-NOT:     binade.attention
// CHECK:         binade.matmul {{.*}}reason = "the attention kernels fill masked scores with a finite f32 or -infinity, not with inf"
// CHECK:         binade.select
// CHECK-NOT:     binade.attention
// CHECK:         return
module attributes {binade.target = #binade.target<"cuda:sm_80", piece = 16777216, attention = [f16, bf16], most = 128>} {
  func.func @step(%q: tensor<2x4x16xbf16>, %m: tensor<1x1x4xi1>, %b: tensor<2x4x4xf32>, %r: tensor<2xi64>)
      -> (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x4xf32>, tensor<2x4x16xbf16>) {
    %y, %lse = binade.attention %q, %q, %q biases(%b) mask(%m) rng(%r)
        {scale = 0.5 : f64, softcap = 2.0 : f64, ratio = 0.1 : f64, stream = 1 : i64}
      : (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x4xf32>, tensor<1x1x4xi1>, tensor<2xi64>)
        -> (tensor<2x4x16xbf16>, tensor<2x4xf32>)
    %dq, %dk, %dv, %unused = binade.attention_grad %y, %q, %q, %q, %y, %lse biases(%b) mask(%m) rng(%r)
        {scale = 0.5 : f64, softcap = 2.0 : f64, ratio = 0.1 : f64, stream = 1 : i64}
      : (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4xf32>,
         tensor<2x4x4xf32>, tensor<1x1x4xi1>, tensor<2xi64>)
        -> (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x4xf32>)
    %dq2, %dk2, %dv2, %db = binade.attention_grad %y, %q, %q, %q, %y, %lse biases(%b) {scale = 0.5 : f64}
      : (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4xf32>, tensor<2x4x4xf32>)
        -> (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x4xf32>)
    %z, %other = binade.attention %q, %q, %q mask(%m) {scale = 0.5 : f64, fill = 0x7FF0000000000000 : f64}
      : (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<1x1x4xi1>)
        -> (tensor<2x4x16xbf16>, tensor<2x4xf32>)
    return %dq, %dq2, %db, %z : tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x4xf32>, tensor<2x4x16xbf16>
  }
}
