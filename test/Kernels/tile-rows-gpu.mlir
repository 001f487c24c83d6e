// RUN: binade-opt %s --split-input-file --binade-tile-rows | FileCheck %s

// On a GPU the number of pieces follows from predicted times (lib/Costs). An H100
// computes the head of GPT-2 for 256 rows at a time in 39.4 ms, for 1024 in 18.9 ms, for
// 4096 in 15.1 ms, and for 8192 in 15.0 ms (benchmarks/gpu/results/rates): 4096 rows are
// the smallest piece that is about as fast as the fastest.

#h100 = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>
module attributes {binade.target = #h100} {
// CHECK-LABEL: tensor<50304x768xbf16>, %arg2
// CHECK: binade.tile 8 slices 3 joins 2
func.func @step(%h: tensor<32768x768xbf16>, %w: tensor<50304x768xbf16>, %labels: tensor<32768xi64>,
                %seed: tensor<f32>) -> (tensor<f32>, tensor<32768x768xbf16>, tensor<50304x768xbf16>) {
  %x = binade.matmul %h, %w {transpose_rhs}
    : (tensor<32768x768xbf16>, tensor<50304x768xbf16>) -> tensor<32768x50304xbf16>
  %xf = binade.cast %x : (tensor<32768x50304xbf16>) -> tensor<32768x50304xf32>
  %s = binade.save %xf : (tensor<32768x50304xf32>) -> tensor<32768x50304xf32>
  %losses, %maximum, %logarithm = binade.cross_entropy %xf, %labels {ignore_index = -100 : i64}
    : (tensor<32768x50304xf32>, tensor<32768xi64>) -> (tensor<32768xf32>, tensor<32768xf32>, tensor<32768xf32>)
  %smaximum = binade.save %maximum : (tensor<32768xf32>) -> tensor<32768xf32>
  %slogarithm = binade.save %logarithm : (tensor<32768xf32>) -> tensor<32768xf32>
  %loss = binade.reduce_sum %losses {axes = array<i64: 0>} : (tensor<32768xf32>) -> tensor<f32>
  %g = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>}
    : (tensor<f32>) -> tensor<32768xf32>
  %d = binade.cross_entropy_grad %g, %s, %labels, %smaximum, %slogarithm
    {binade.phase = #binade.phase<backward>, ignore_index = -100 : i64}
    : (tensor<32768xf32>, tensor<32768x50304xf32>, tensor<32768xi64>, tensor<32768xf32>, tensor<32768xf32>) -> tensor<32768x50304xf32>
  %dn = binade.cast %d {binade.phase = #binade.phase<backward>}
    : (tensor<32768x50304xf32>) -> tensor<32768x50304xbf16>
  %dh = binade.matmul %dn, %w {binade.phase = #binade.phase<backward>}
    : (tensor<32768x50304xbf16>, tensor<50304x768xbf16>) -> tensor<32768x768xbf16>
  %dw = binade.matmul %dn, %h {binade.phase = #binade.phase<backward>, transpose_lhs}
    : (tensor<32768x50304xbf16>, tensor<32768x768xbf16>) -> tensor<50304x768xbf16>
  return %loss, %dh, %dw : tensor<f32>, tensor<32768x768xbf16>, tensor<50304x768xbf16>
}
}

// -----

// The head of Llama 1.1B: 28.6, 12.9, 9.95 and 10.0 ms.

#h100 = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>
module attributes {binade.target = #h100} {
// CHECK-LABEL: tensor<32000x2048xbf16>, %arg2
// CHECK: binade.tile 4 slices 3 joins 2
func.func @step(%h: tensor<16384x2048xbf16>, %w: tensor<32000x2048xbf16>, %labels: tensor<16384xi64>,
                %seed: tensor<f32>) -> (tensor<f32>, tensor<16384x2048xbf16>, tensor<32000x2048xbf16>) {
  %x = binade.matmul %h, %w {transpose_rhs}
    : (tensor<16384x2048xbf16>, tensor<32000x2048xbf16>) -> tensor<16384x32000xbf16>
  %xf = binade.cast %x : (tensor<16384x32000xbf16>) -> tensor<16384x32000xf32>
  %s = binade.save %xf : (tensor<16384x32000xf32>) -> tensor<16384x32000xf32>
  %losses, %maximum, %logarithm = binade.cross_entropy %xf, %labels {ignore_index = -100 : i64}
    : (tensor<16384x32000xf32>, tensor<16384xi64>) -> (tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>)
  %smaximum = binade.save %maximum : (tensor<16384xf32>) -> tensor<16384xf32>
  %slogarithm = binade.save %logarithm : (tensor<16384xf32>) -> tensor<16384xf32>
  %loss = binade.reduce_sum %losses {axes = array<i64: 0>} : (tensor<16384xf32>) -> tensor<f32>
  %g = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>}
    : (tensor<f32>) -> tensor<16384xf32>
  %d = binade.cross_entropy_grad %g, %s, %labels, %smaximum, %slogarithm
    {binade.phase = #binade.phase<backward>, ignore_index = -100 : i64}
    : (tensor<16384xf32>, tensor<16384x32000xf32>, tensor<16384xi64>, tensor<16384xf32>, tensor<16384xf32>) -> tensor<16384x32000xf32>
  %dn = binade.cast %d {binade.phase = #binade.phase<backward>}
    : (tensor<16384x32000xf32>) -> tensor<16384x32000xbf16>
  %dh = binade.matmul %dn, %w {binade.phase = #binade.phase<backward>}
    : (tensor<16384x32000xbf16>, tensor<32000x2048xbf16>) -> tensor<16384x2048xbf16>
  %dw = binade.matmul %dn, %h {binade.phase = #binade.phase<backward>, transpose_lhs}
    : (tensor<16384x32000xbf16>, tensor<16384x2048xbf16>) -> tensor<32000x2048xbf16>
  return %loss, %dh, %dw : tensor<f32>, tensor<16384x2048xbf16>, tensor<32000x2048xbf16>
}
}

// -----

// The results, query, key and value, have half as many bytes as the matmul's result: tiles
// would save little memory, and take longer.

#h100 = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>
module attributes {binade.target = #h100} {
// CHECK-LABEL: tensor<2304x768xbf16>) ->
// CHECK-NOT: binade.tile
func.func @step(%h: tensor<32768x768xbf16>, %w: tensor<2304x768xbf16>)
    -> (tensor<32768x768xbf16>, tensor<32768x768xbf16>, tensor<32768x768xbf16>) {
  %x = binade.matmul %h, %w {transpose_rhs}
    : (tensor<32768x768xbf16>, tensor<2304x768xbf16>) -> tensor<32768x2304xf32>
  %y = binade.cast %x : (tensor<32768x2304xf32>) -> tensor<32768x2304xbf16>
  %q = binade.slice %y {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>}
    : (tensor<32768x2304xbf16>) -> tensor<32768x768xbf16>
  %k = binade.slice %y {offsets = array<i64: 0, 768>, strides = array<i64: 1, 1>}
    : (tensor<32768x2304xbf16>) -> tensor<32768x768xbf16>
  %v = binade.slice %y {offsets = array<i64: 0, 1536>, strides = array<i64: 1, 1>}
    : (tensor<32768x2304xbf16>) -> tensor<32768x768xbf16>
  return %q, %k, %v
    : tensor<32768x768xbf16>, tensor<32768x768xbf16>, tensor<32768x768xbf16>
}
}

// -----

// 32749 is prime: the last piece is shorter than the others.

#h100 = #binade.target<"cuda:sm_90", piece = 16777216, codes = [f8E4M3FN], multiple = 16>
module attributes {binade.target = #h100} {
// CHECK-LABEL: tensor<50304x768xbf16>, %arg2
// CHECK: binade.tile {{[0-9]+}} of [[ROWS:[0-9]+]] remainder {{[0-9]+}} slices 3 joins 2
// CHECK: binade.matmul {{.*}} -> tensor<[[ROWS]]x50304xbf16>
// CHECK: } remainder {
func.func @step(%h: tensor<32749x768xbf16>, %w: tensor<50304x768xbf16>, %labels: tensor<32749xi64>,
                %seed: tensor<f32>) -> (tensor<f32>, tensor<32749x768xbf16>, tensor<50304x768xbf16>) {
  %x = binade.matmul %h, %w {transpose_rhs}
    : (tensor<32749x768xbf16>, tensor<50304x768xbf16>) -> tensor<32749x50304xbf16>
  %xf = binade.cast %x : (tensor<32749x50304xbf16>) -> tensor<32749x50304xf32>
  %s = binade.save %xf : (tensor<32749x50304xf32>) -> tensor<32749x50304xf32>
  %losses, %maximum, %logarithm = binade.cross_entropy %xf, %labels {ignore_index = -100 : i64}
    : (tensor<32749x50304xf32>, tensor<32749xi64>) -> (tensor<32749xf32>, tensor<32749xf32>, tensor<32749xf32>)
  %smaximum = binade.save %maximum : (tensor<32749xf32>) -> tensor<32749xf32>
  %slogarithm = binade.save %logarithm : (tensor<32749xf32>) -> tensor<32749xf32>
  %loss = binade.reduce_sum %losses {axes = array<i64: 0>} : (tensor<32749xf32>) -> tensor<f32>
  %g = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>}
    : (tensor<f32>) -> tensor<32749xf32>
  %d = binade.cross_entropy_grad %g, %s, %labels, %smaximum, %slogarithm
    {binade.phase = #binade.phase<backward>, ignore_index = -100 : i64}
    : (tensor<32749xf32>, tensor<32749x50304xf32>, tensor<32749xi64>, tensor<32749xf32>, tensor<32749xf32>) -> tensor<32749x50304xf32>
  %dn = binade.cast %d {binade.phase = #binade.phase<backward>}
    : (tensor<32749x50304xf32>) -> tensor<32749x50304xbf16>
  %dh = binade.matmul %dn, %w {binade.phase = #binade.phase<backward>}
    : (tensor<32749x50304xbf16>, tensor<50304x768xbf16>) -> tensor<32749x768xbf16>
  %dw = binade.matmul %dn, %h {binade.phase = #binade.phase<backward>, transpose_lhs}
    : (tensor<32749x50304xbf16>, tensor<32749x768xbf16>) -> tensor<50304x768xbf16>
  return %loss, %dh, %dw : tensor<f32>, tensor<32749x768xbf16>, tensor<50304x768xbf16>
}
}
