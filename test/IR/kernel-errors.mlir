// RUN: binade-opt %s --verify-diagnostics --split-input-file

func.func private @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

func.func @not_a_kernel(%x: tensor<4xf32>) {
  // expected-error@+1 {{'binade.launch' op launches @plain, which is not a kernel of this module}}
  %0 = binade.launch [@plain](%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  return %x : tensor<4xf32>
}

func.func @twice(%x: tensor<4xf32>) {
  // expected-error@+1 {{'binade.launch' op launches several kernels, but @double is not a multi-tensor kernel}}
  %0:2 = binade.launch [@double, @double](%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  return %x : tensor<4xf32>
}

func.func @other_shape(%x: tensor<5xf32>) {
  // expected-error@+1 {{'binade.launch' op has type ('tensor<5xf32>') -> ('tensor<5xf32>'), its kernels ('tensor<4xf32>') -> ('tensor<4xf32>')}}
  %0 = binade.launch [@double](%x) : (tensor<5xf32>) -> tensor<5xf32>
  return
}

// -----

func.func private @many(%x: tensor<16xf32>) -> tensor<16xf32>
    attributes {binade.kernel = #binade.schedule<multi_tensor>} {
  return %x : tensor<16xf32>
}

func.func @other_format(%x: tensor<5xbf16>) {
  // expected-error@+1 {{'binade.launch' op has type ('tensor<5xbf16>') -> ('tensor<5xf32>'), its kernels ('tensor<16xf32>') -> ('tensor<16xf32>')}}
  %0 = binade.launch [@many](%x) : (tensor<5xbf16>) -> tensor<5xf32>
  return
}
