//===- Amx.cpp - Fused attention for AMX ----------------------------------===//

#include "Kernels.h"
#include <immintrin.h>

using namespace binade;
using namespace binade::attention;

#pragma clang attribute push(                                                  \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,"     \
                          "avx2,fma,f16c,amx-tile,amx-bf16"))),                \
    apply_to = function)
#include "../Execution/AmxTiles.h"
// clang-format off: later headers use earlier ones.
#include "Vectors.h"
#include "PairElements.h"
#include "HeadKernels.h"
// clang-format on

namespace {

struct AmxEngine : PairElements {
  static constexpr std::int64_t kMultiple = 32;
  static constexpr std::int64_t kTile = kAmxRows;
  using Scope = AmxTiles;

  static void multiply(const Element *a, std::int64_t lda, const Element *b,
                       std::int64_t ldb, float *c, std::int64_t ldc,
                       std::int64_t m, std::int64_t n, std::int64_t k,
                       bool accumulate) {
    for (std::int64_t j = 0; j < n; j += 2 * kTile)
      for (std::int64_t i = 0; i < m; i += 2 * kTile)
        multiplyBlock(a + i * lda, lda, b + j * kGroup, ldb, c + i * ldc + j,
                      ldc, k, accumulate);
  }

private:
  /// Computes 2 x 2 tiles of c, which are tiles 0 to 3.
  static void multiplyBlock(const Element *a, std::int64_t lda,
                            const Element *b, std::int64_t ldb, float *c,
                            std::int64_t ldc, std::int64_t k, bool accumulate) {
    std::int64_t aBytes = lda * sizeof(Element), bBytes = ldb * sizeof(float),
                 cBytes = ldc * sizeof(float);
    float *below = c + kTile * ldc;
    if (accumulate) {
      _tile_loadd(0, c, cBytes);
      _tile_loadd(1, c + kTile, cBytes);
      _tile_loadd(2, below, cBytes);
      _tile_loadd(3, below + kTile, cBytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    const Element *aBelow = a + kTile * lda;
    for (std::int64_t l = 0; l < k; l += kTile * kGroup) {
      _tile_loadd(6, b, bBytes);
      _tile_loadd(4, a + l, aBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + kTile * kGroup, bBytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, aBelow + l, aBytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      b += kTile * ldb * kGroup;
    }
    _tile_stored(0, c, cBytes);
    _tile_stored(1, c + kTile, cBytes);
    _tile_stored(2, below, cBytes);
    _tile_stored(3, below + kTile, cBytes);
  }
};
} // namespace
#pragma clang attribute pop

const Kernels attention::amxKernels = makeKernels<AmxEngine>("amx");
