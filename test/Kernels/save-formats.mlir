// RUN: binade-opt %s --binade-recompute | FileCheck %s --check-prefix=AGAIN
// RUN: binade-opt %s --binade-expand-composites --binade-form-kernels \
// RUN:   | FileCheck %s --check-prefix=KERNEL

// A value that is saved in another format is rounded by the kernel that computes it, and
// its users read the rounded value.

// KERNEL-LABEL: func.func @step
// KERNEL:         %[[E:.*]]:2 = binade.launch [@[[EXP:.*]]](%arg0) {{.*}} -> (tensor<4x6xf32>, tensor<4x6xbf16>)
// KERNEL:         %[[S:.*]] = binade.save %[[E]]#1 : (tensor<4x6xbf16>) -> tensor<4x6xbf16>
// KERNEL:         binade.launch [@{{.*}}]({{.*}}%[[S]]{{.*}}) {binade.phase = #binade.phase<backward>}
// KERNEL:       func.func private @[[EXP]]
// KERNEL:         %[[Y:.*]] = binade.exp %arg0
// KERNEL:         binade.cast %[[Y]] : (tensor<4x6xf32>) -> tensor<4x6xbf16>

// The gelu is not recomputed from %sh, which is rounded and thus not its operand; the exp
// is, and is rounded as by the save.

// AGAIN-LABEL: func.func @step
// AGAIN:         %[[H:.*]] = binade.matmul
// AGAIN:         %[[SH:.*]] = binade.save %[[H]] : (tensor<4x6xf32>) -> tensor<4x6xbf16>
// AGAIN:         %[[G:.*]] = binade.gelu %[[H]]
// AGAIN:         %[[SG:.*]] = binade.save %[[G]]
// AGAIN:         %[[E:.*]] = binade.exp %arg0 {binade.phase = #binade.phase<backward>}
// AGAIN:         %[[N:.*]] = binade.cast %[[E]] {binade.phase = #binade.phase<backward>} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
// AGAIN:         %[[M:.*]] = binade.mul %[[SH]], %[[N]]
// AGAIN:         binade.mul %[[M]], %[[SG]]
func.func @step(%x: tensor<4x6xf32>, %w: tensor<6x6xf32>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %h = binade.matmul %x, %w : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  %sh = binade.save %h : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %g = binade.gelu %h : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %sg = binade.save %g : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %e = binade.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %se = binade.save %e : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %m = binade.mul %sh, %se {binade.phase = #binade.phase<backward>}
    : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xf32>
  %d = binade.mul %m, %sg {binade.phase = #binade.phase<backward>}
    : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %g, %e, %d : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}
