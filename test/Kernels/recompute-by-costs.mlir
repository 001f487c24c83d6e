// RUN: binade-opt %s --binade-recompute-by-costs=min-bytes=0 --split-input-file | FileCheck %s
// RUN: binade-opt %s --binade-recompute-by-costs --split-input-file | FileCheck %s --check-prefix=SMALL

// The gradient of the function reads %h anyway: its kernel also computes the function, from
// what is saved. The matmul that reads the result is moved after it. The norm follows from
// its operand and its statistics. Values of less than 1 MiB are left alone by default.

// CHECK:       binade.saved = [#binade.saved<keep, "matmul", tensor<64x64xbf16>>,
// CHECK-SAME:    #binade.saved<recompute, "mul", tensor<64x64xbf16>>,
// CHECK-SAME:    #binade.saved<recompute, "cast", tensor<64x64xbf16>>]
// CHECK-LABEL: func.func @step
// CHECK:         %[[H:.*]] = binade.matmul %arg0, %arg1
// CHECK:         %[[SH:.*]] = binade.save %[[H]]
// CHECK:         %{{.*}}, %[[RSTD:.*]] = binade.rms_norm %arg3
// CHECK:         %[[SR:.*]] = binade.save %[[RSTD]]
// CHECK-NOT:     binade.save
// CHECK:         %[[D:.*]] = binade.matmul %arg2, %arg1
// CHECK:         %[[S:.*]] = binade.silu %[[SH]] {binade.phase
// CHECK:         %[[M:.*]] = binade.mul %[[S]], %arg0 {binade.phase
// CHECK:         binade.silu_grad %[[D]], %[[SH]]
// CHECK:         binade.matmul %[[M]], %arg2
// CHECK:         binade.broadcast %[[SR]]
// CHECK:         binade.mul
// CHECK:         binade.broadcast %arg4
// CHECK:         binade.mul
// CHECK:         %[[Y:.*]] = binade.cast
// CHECK:         binade.rms_norm_grad
// CHECK:         binade.matmul %arg2, %[[Y]]

// SMALL-NOT:   binade.saved =
// SMALL:       func.func @step
// SMALL-COUNT-4: binade.save %
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>, %dy: tensor<64x64xbf16>,
    %r: tensor<64x64xf32>, %scale: tensor<64xf32>)
    -> (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>, tensor<64x64xbf16>) {
  %h = binade.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %sh = binade.save %h : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %s = binade.silu %h : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %m = binade.mul %s, %x : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %sm = binade.save %m : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %y, %rstd = binade.rms_norm %r, %scale {epsilon = 1.0e-5}
    : (tensor<64x64xf32>, tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>)
  %srstd = binade.save %rstd : (tensor<64xf32>) -> tensor<64xf32>
  %c = binade.cast %y : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %sc = binade.save %c : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %dm = binade.matmul %dy, %w {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %dw = binade.matmul %sm, %dy {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %dh = binade.silu_grad %dm, %sh {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %dv = binade.matmul %dy, %sc {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %wide = binade.cast %dh {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %dr = binade.rms_norm_grad %wide, %r, %scale, %srstd {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  return %dh, %dw, %dr, %dv
    : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>, tensor<64x64xbf16>
}
}

// -----

// Without a kernel that reads the same, three bytes would be read and written for each byte
// of the rounded sum. So would the matmul hold a gradient that is much larger than the value.
// A matmul is not recomputed.

// CHECK:       binade.saved = [#binade.saved<keep, "cast", tensor<64x64xbf16>>,
// CHECK-SAME:    #binade.saved<keep, "cast", tensor<64x64xbf16>>]
// CHECK-LABEL: func.func @step
// CHECK-COUNT-3: binade.save %
module attributes {binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%x: tensor<64x64xf32>, %z: tensor<64x64xf32>, %r: tensor<64x64xf32>,
    %scale: tensor<64xf32>, %dy: tensor<64x2048xbf16>)
    -> (tensor<64x2048xbf16>, tensor<64x2048xbf16>, tensor<64x64xf32>) {
  %s = binade.add %x, %z : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n = binade.cast %s : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %sn = binade.save %n : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %y, %rstd = binade.rms_norm %r, %scale {epsilon = 1.0e-5}
    : (tensor<64x64xf32>, tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>)
  %srstd = binade.save %rstd : (tensor<64xf32>) -> tensor<64xf32>
  %c = binade.cast %y : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %sc = binade.save %c : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %dn = binade.matmul %sn, %dy {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xbf16>, tensor<64x2048xbf16>) -> tensor<64x2048xbf16>
  %dw = binade.matmul %sc, %dy {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xbf16>, tensor<64x2048xbf16>) -> tensor<64x2048xbf16>
  %dr = binade.rms_norm_grad %r, %r, %scale, %srstd {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  return %dn, %dw, %dr : tensor<64x2048xbf16>, tensor<64x2048xbf16>, tensor<64x64xf32>
}
}

// -----

// A budget has chosen. CPUs have no rates.

// CHECK-LABEL: func.func @step
// CHECK-COUNT-1: binade.save
module attributes {binade.saved = [],
    binade.target = #binade.target<"cuda:sm_90", piece = 16777216>} {
func.func @step(%x: tensor<64x64xf32>, %dy: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = binade.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = binade.save %e : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = binade.mul %dy, %s {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %d : tensor<64x64xf32>
}
}

// -----

// CHECK-LABEL: func.func @step
// CHECK-COUNT-1: binade.save
module {
func.func @step(%x: tensor<64x64xf32>, %dy: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = binade.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = binade.save %e : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = binade.mul %dy, %s {binade.phase = #binade.phase<backward>}
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %d : tensor<64x64xf32>
}
}
