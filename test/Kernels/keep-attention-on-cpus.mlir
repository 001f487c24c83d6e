// RUN: binade-opt %s --split-input-file --binade-set-cpu-target --binade-expand-composites | FileCheck %s

// The runtime has kernels of attention for CPUs, for f32, bf16 and f16 and for heads of any size
// up to 256. What they do not compute is decomposed, and the matmuls say why.

// CHECK:         module attributes {binade.target = #binade.target<"cpu", piece = 0, attention = [f32, f16, bf16], most = 256>}
// CHECK-LABEL:   func.func @step
// CHECK-COUNT-3: = binade.attention %
// CHECK:         binade.attention_grad
// CHECK-NOT:     binade.matmul
module {
  func.func @step(%q: tensor<2x2x8x20xf32>, %b: tensor<2x2x8x32xbf16>, %h: tensor<2x2x8x256xf16>)
      -> (tensor<2x2x8x20xf32>, tensor<2x2x8x32xbf16>, tensor<2x2x8x256xf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>) {
    %x, %lx = binade.attention %q, %q, %q {scale = 0.5 : f64}
        : (tensor<2x2x8x20xf32>, tensor<2x2x8x20xf32>, tensor<2x2x8x20xf32>) -> (tensor<2x2x8x20xf32>, tensor<2x2x8xf32>)
    %y, %ly = binade.attention %b, %b, %b {scale = 0.5 : f64, causal}
        : (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>) -> (tensor<2x2x8x32xbf16>, tensor<2x2x8xf32>)
    %z, %lz = binade.attention %h, %h, %h {scale = 0.5 : f64}
        : (tensor<2x2x8x256xf16>, tensor<2x2x8x256xf16>, tensor<2x2x8x256xf16>) -> (tensor<2x2x8x256xf16>, tensor<2x2x8xf32>)
    %dq, %dk, %dv = binade.attention_grad %y, %b, %b, %b, %y, %ly {scale = 0.5 : f64, causal}
        : (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8xf32>)
          -> (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>)
    return %x, %y, %z, %dq, %dk, %dv : tensor<2x2x8x20xf32>, tensor<2x2x8x32xbf16>, tensor<2x2x8x256xf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>
  }
}

// -----

// Masks, biases and their gradients, soft caps and dropout are computed by the kernels.

// CHECK-LABEL: func.func @step
// CHECK:       binade.attention {{.*}} mask(
// CHECK:       binade.attention_grad {{.*}} biases(
// CHECK:       binade.attention {{.*}} softcap
// CHECK:       binade.attention {{.*}} rng(
// CHECK-NOT:   binade.matmul
module {
  func.func @step(%q: tensor<2x2x8x32xbf16>, %m: tensor<2x1x1x8xi1>, %b: tensor<1x2x8x8xf32>, %r: tensor<2xi64>, %l: tensor<2x2x8xf32>)
      -> (tensor<2x2x8x32xbf16>, tensor<1x2x8x8xf32>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>) {
    %x, %lx = binade.attention %q, %q, %q mask(%m) {scale = 0.5 : f64}
        : (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x1x1x8xi1>) -> (tensor<2x2x8x32xbf16>, tensor<2x2x8xf32>)
    %dq, %dk, %dv, %db = binade.attention_grad %q, %q, %q, %q, %q, %l biases(%b) {scale = 0.5 : f64}
        : (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8xf32>, tensor<1x2x8x8xf32>)
          -> (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<1x2x8x8xf32>)
    %y, %ly = binade.attention %q, %q, %q {scale = 0.5 : f64, softcap = 3.0 : f64}
        : (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>) -> (tensor<2x2x8x32xbf16>, tensor<2x2x8xf32>)
    %z, %lz = binade.attention %q, %q, %q rng(%r) {scale = 0.5 : f64, ratio = 0.1 : f64, stream = 3 : i64}
        : (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2xi64>) -> (tensor<2x2x8x32xbf16>, tensor<2x2x8xf32>)
    return %x, %db, %y, %z : tensor<2x2x8x32xbf16>, tensor<1x2x8x8xf32>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>
  }
}

// -----

// CHECK-LABEL: func.func @step
// CHECK-NOT:   binade.attention
// CHECK:       binade.matmul {{.*}}reason = "the attention kernels fill masked scores with a finite f32 or -infinity, not with 1e+300"
// CHECK:       binade.matmul {{.*}}reason = "a head size of 257 is more than 256"
module {
  func.func @step(%q: tensor<2x2x8x32xbf16>, %m: tensor<2x1x1x8xi1>, %w: tensor<2x2x8x257xf32>)
      -> (tensor<2x2x8x32xbf16>, tensor<2x2x8x257xf32>) {
    %x, %lx = binade.attention %q, %q, %q mask(%m) {scale = 0.5 : f64, fill = 1.0e300 : f64}
        : (tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x2x8x32xbf16>, tensor<2x1x1x8xi1>) -> (tensor<2x2x8x32xbf16>, tensor<2x2x8xf32>)
    %z, %lz = binade.attention %w, %w, %w {scale = 0.5 : f64}
        : (tensor<2x2x8x257xf32>, tensor<2x2x8x257xf32>, tensor<2x2x8x257xf32>) -> (tensor<2x2x8x257xf32>, tensor<2x2x8xf32>)
    return %x, %z : tensor<2x2x8x32xbf16>, tensor<2x2x8x257xf32>
  }
}
