//===- Avx512Bf16.cpp - Fused attention for AVX-512 BF16 ------------------===//

#include "Kernels.h"
#include <immintrin.h>

using namespace binade;
using namespace binade::attention;

#pragma clang attribute push(                                                  \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,"     \
                          "avx2,fma,f16c"))),                                  \
    apply_to = function)
// clang-format off: later headers use earlier ones.
#include "Vectors.h"
#include "VectorEngine.h"
#include "PairElements.h"
#include "HeadKernels.h"
// clang-format on

namespace {
struct PairUnit : PairElements {
  static Floats broadcast(const Element *from) {
    return bitsOf<Floats>(
        Words(*reinterpret_cast<const std::uint32_t *>(from)));
  }
  static Floats multiplyAdd(Floats a, Floats b, Floats c) {
    return bitsOf<Floats>(_mm512_dpbf16_ps(
        bitsOf<__m512>(c), bitsOf<__m512bh>(a), bitsOf<__m512bh>(b)));
  }
};
} // namespace
#pragma clang attribute pop

const Kernels attention::avx512Bf16Kernels =
    makeKernels<VectorEngine<PairUnit, 8, 2>>("avx512_bf16");
