// RUN: binade-opt %s --binade-choose-accuracy | FileCheck %s
// RUN: binade-opt %s --binade-choose-accuracy --binade-emit-kernels | FileCheck %s --check-prefix=EMIT

// The formats of the results of an op decide, not those of the kernel. Terms of gradients
// cancel, so that their functions stay accurate for f32.

// CHECK-LABEL: func.func private @elementwise
// CHECK:         binade.exp %{{.*}} {binade.accuracy = bf16} : (tensor<64xf32>) -> tensor<64xbf16>
// CHECK:         binade.exp %{{.*}} {binade.accuracy = f16} : (tensor<64xf32>) -> tensor<64xf16>
// CHECK:         binade.tanh %{{.*}} {binade.accuracy = bf16} : (tensor<64xf32>) -> tensor<64xf8E5M2>
// CHECK:         %[[WIDE:.*]] = binade.gelu %{{[^{]*}} : (tensor<64xf32>) -> tensor<64xf32>
// CHECK:         binade.cast %[[WIDE]] : (tensor<64xf32>) -> tensor<64xbf16>
// CHECK:         binade.add %{{[^{]*}} : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
// CHECK:         binade.sin %{{[^{]*}} : (tensor<64xf32>) -> tensor<64xbf16>
// CHECK:         binade.gelu_grad %{{[^{]*}} : (tensor<64xbf16>, tensor<64xf32>) -> tensor<64xbf16>

// EMIT-LABEL: func.func private @elementwise.items
// EMIT:         math.exp %{{.*}} {binade.accuracy = bf16} : vector<16xf32>
// EMIT:         math.exp %{{.*}} {binade.accuracy = f16} : vector<16xf32>
// EMIT:         math.tanh %{{.*}} {binade.accuracy = bf16} : vector<16xf32>
// EMIT:         math.erf %{{[^{]*}} : vector<16xf32>
func.func private @elementwise(%x: tensor<64xf32>)
    -> (tensor<64xbf16>, tensor<64xf16>, tensor<64xf8E5M2>, tensor<64xbf16>, tensor<64xbf16>,
        tensor<64xbf16>)
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %0 = binade.exp %x : (tensor<64xf32>) -> tensor<64xbf16>
  %1 = binade.exp %x : (tensor<64xf32>) -> tensor<64xf16>
  %2 = binade.tanh %x : (tensor<64xf32>) -> tensor<64xf8E5M2>
  %3 = binade.gelu %x : (tensor<64xf32>) -> tensor<64xf32>
  %4 = binade.cast %3 : (tensor<64xf32>) -> tensor<64xbf16>
  %5 = binade.add %0, %4 : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
  %6 = binade.sin %x : (tensor<64xf32>) -> tensor<64xbf16>
  %7 = binade.gelu_grad %5, %x : (tensor<64xbf16>, tensor<64xf32>) -> tensor<64xbf16>
  return %0, %1, %2, %5, %6, %7
    : tensor<64xbf16>, tensor<64xf16>, tensor<64xf8E5M2>, tensor<64xbf16>, tensor<64xbf16>,
      tensor<64xbf16>
}

// A decision made before stays. The parts of a composite have its accuracy. For f32 results,
// those of the logarithm here, it stays that of f32.

// CHECK-LABEL: func.func private @rows
// CHECK:         binade.exp %{{.*}} {binade.accuracy = bf16} : (tensor<4x64xf32>) -> tensor<4x64xf32>
// CHECK:         binade.softmax %{{.*}} {binade.accuracy = bf16} :
// CHECK:         binade.log_softmax %{{[^{]*}} : (tensor<4x64xbf16>) -> tensor<4x64xf32>

// EMIT-LABEL: func.func private @rows.items
// EMIT-DAG:     math.exp %{{.*}} {binade.accuracy = bf16} : vector<16xf32>
// EMIT-DAG:     math.exp %{{[^{]*}} : vector<16xf32>
// EMIT-NOT:     arith.mulf %{{.*}} {binade.accuracy
func.func private @rows(%x: tensor<4x64xbf16>, %w: tensor<4x64xf32>)
    -> (tensor<4x64xbf16>, tensor<4x64xf32>, tensor<4x64xbf16>)
    attributes {binade.kernel = #binade.schedule<row_reduction>} {
  %0 = binade.exp %w {binade.accuracy = bf16} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = binade.softmax %x : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
  %2 = binade.log_softmax %x : (tensor<4x64xbf16>) -> tensor<4x64xf32>
  %3 = binade.cast %0 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
  return %1, %2, %3 : tensor<4x64xbf16>, tensor<4x64xf32>, tensor<4x64xbf16>
}
