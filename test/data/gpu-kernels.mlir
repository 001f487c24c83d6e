// One kernel of each kind, whose code test_gpu_code.py holds to gpu-budgets.json.

func.func private @negate(%x: tensor<65536xf32>) -> tensor<65536xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.neg %x : (tensor<65536xf32>) -> tensor<65536xf32>
  return %y : tensor<65536xf32>
}

func.func private @gelu(%x: tensor<65536xf32>) -> tensor<65536xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.gelu %x : (tensor<65536xf32>) -> tensor<65536xf32>
  return %y : tensor<65536xf32>
}

func.func private @to_bf16(%x: tensor<65536xf32>) -> tensor<65536xbf16>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.cast %x : (tensor<65536xf32>) -> tensor<65536xbf16>
  return %y : tensor<65536xbf16>
}

func.func private @from_bf16(%x: tensor<65536xbf16>) -> tensor<65536xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.cast %x : (tensor<65536xbf16>) -> tensor<65536xf32>
  return %y : tensor<65536xf32>
}

func.func private @to_f8(%x: tensor<65536xf32>) -> tensor<65536xf8E4M3FN>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.cast %x {saturate} : (tensor<65536xf32>) -> tensor<65536xf8E4M3FN>
  return %y : tensor<65536xf8E4M3FN>
}

func.func private @softmax(%x: tensor<64x512xf32>) -> tensor<64x512xf32>
    attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %y = binade.softmax %x : (tensor<64x512xf32>) -> tensor<64x512xf32>
  return %y : tensor<64x512xf32>
}

func.func private @layer_norm(%x: tensor<64x512xf32>, %w: tensor<512xf32>, %b: tensor<512xf32>)
    -> (tensor<64x512xf32>, tensor<64xf32>, tensor<64xf32>)
    attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %y, %m, %r = binade.layer_norm %x, %w, %b {epsilon = 1.0e-5}
    : (tensor<64x512xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<64x512xf32>, tensor<64xf32>, tensor<64xf32>)
  return %y, %m, %r : tensor<64x512xf32>, tensor<64xf32>, tensor<64xf32>
}

func.func private @quantize_rows(%x: tensor<64x512xf32>) -> (tensor<64x512xf8E4M3FN>, tensor<64xf32>)
    attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %q:2 = binade.quantize %x {format = #binade.quantized<f8E4M3FN, per_row, scale = f32>, saturate}
    : (tensor<64x512xf32>) -> (tensor<64x512xf8E4M3FN>, tensor<64xf32>)
  return %q#0, %q#1 : tensor<64x512xf8E4M3FN>, tensor<64xf32>
}

func.func private @quantize_blocks(%x: tensor<64x512xf32>) -> (tensor<64x512xf8E5M2>, tensor<64x4xf32>)
    attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %q:2 = binade.quantize %x {format = #binade.quantized<f8E5M2, per_block<1, 128>, scale = f32>, saturate}
    : (tensor<64x512xf32>) -> (tensor<64x512xf8E5M2>, tensor<64x4xf32>)
  return %q#0, %q#1 : tensor<64x512xf8E5M2>, tensor<64x4xf32>
}

func.func private @dequantize_rows(%x: tensor<64x512xf8E4M3FN>, %s: tensor<64xf32>) -> tensor<64x512xbf16>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.dequantize %x, %s {format = #binade.quantized<f8E4M3FN, per_row, scale = f32>}
    : (tensor<64x512xf8E4M3FN>, tensor<64xf32>) -> tensor<64x512xbf16>
  return %y : tensor<64x512xbf16>
}

func.func private @transposed_copy(%x: tensor<256x128xbf16>, %s: tensor<f32>) -> (tensor<256x128xf8E4M3FN>, tensor<128x256xf8E4M3FN>)
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %w = binade.cast %x : (tensor<256x128xbf16>) -> tensor<256x128xf32>
  %y = binade.encode %w, %s {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse>, saturate}
    : (tensor<256x128xf32>, tensor<f32>) -> tensor<256x128xf8E4M3FN>
  %t = binade.transpose %y {permutation = array<i64: 1, 0>} : (tensor<256x128xf8E4M3FN>) -> tensor<128x256xf8E4M3FN>
  return %y, %t : tensor<256x128xf8E4M3FN>, tensor<128x256xf8E4M3FN>
}

func.func private @scatter(%dy: tensor<300x200xbf16>, %i: tensor<300xi64>) -> tensor<100x200xf32>
    attributes {binade.kernel = #binade.schedule<scatter>} {
  %y = binade.gather_grad %dy, %i : (tensor<300x200xbf16>, tensor<300xi64>) -> tensor<100x200xf32>
  return %y : tensor<100x200xf32>
}

func.func private @gather(%t: tensor<1000x512xbf16>, %i: tensor<256xi64>) -> tensor<256x512xbf16>
    attributes {binade.kernel = #binade.schedule<gather>} {
  %y = binade.gather %t, %i : (tensor<1000x512xbf16>, tensor<256xi64>) -> tensor<256x512xbf16>
  return %y : tensor<256x512xbf16>
}

func.func private @dropout(%x: tensor<65536xf32>, %rng: tensor<2xi64>) -> tensor<65536xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.dropout %x, %rng {ratio = 0.1, stream = 0 : i64} : (tensor<65536xf32>, tensor<2xi64>) -> tensor<65536xf32>
  return %y : tensor<65536xf32>
}

func.func private @transpose(%x: tensor<256x256xbf16>) -> tensor<256x256xbf16>
    attributes {binade.kernel = #binade.schedule<permute>} {
  %y = binade.transpose %x {permutation = array<i64: 1, 0>} : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
  return %y : tensor<256x256xbf16>
}

func.func private @sum_columns(%x: tensor<512x256xbf16>) -> tensor<256xf32>
    attributes {binade.kernel = #binade.schedule<column_reduction>} {
  %w = binade.cast %x : (tensor<512x256xbf16>) -> tensor<512x256xf32>
  %y = binade.reduce_sum %w {axes = array<i64: 0>} : (tensor<512x256xf32>) -> tensor<256xf32>
  return %y : tensor<256xf32>
}

func.func private @norm_columns(%dy: tensor<512x256xf32>, %x: tensor<512x256xf32>, %m: tensor<512xf32>, %r: tensor<512xf32>)
    -> (tensor<256xf32>, tensor<256xf32>)
    attributes {binade.kernel = #binade.schedule<column_reduction>} {
  %s, %b = binade.layer_norm_param_grad %dy, %x, %m, %r
    : (tensor<512x256xf32>, tensor<512x256xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<256xf32>, tensor<256xf32>)
  return %s, %b : tensor<256xf32>, tensor<256xf32>
}

func.func private @sum_all(%x: tensor<65536xf32>) -> tensor<f32>
    attributes {binade.kernel = #binade.schedule<full_reduction>} {
  %y = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<65536xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

func.func private @update_scale(%s: tensor<f32>, %n: tensor<i64>, %bad: tensor<i1>) -> (tensor<f32>, tensor<i64>)
    attributes {binade.kernel = #binade.schedule<scalars>} {
  %t, %k = binade.update_scale %s, %n, %bad {growth = 2.0, backoff = 0.5, interval = 2000 : i64}
    : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
  return %t, %k : tensor<f32>, tensor<i64>
}

func.func private @statistics(%x: tensor<65536xbf16>) -> (tensor<f32>, tensor<i64>, tensor<256xi64>)
    attributes {binade.kernel = #binade.schedule<statistics>} {
  %s:3 = binade.statistics <amax|zeros|exponents> %x : (tensor<65536xbf16>) -> (tensor<f32>, tensor<i64>, tensor<256xi64>)
  return %s#0, %s#1, %s#2 : tensor<f32>, tensor<i64>, tensor<256xi64>
}
