//===- TileAmx.cpp - Microkernels for f16 on AMX --------------------------===//
// Every f16 is a word: the bf16 of its upper eight significant bits, and that
// of the rest. A multiply-add of tiles of such words adds the products of upper
// parts and those of lower parts; one with the halves of the left words
// exchanged adds the others.
//===----------------------------------------------------------------------===//

#include "Tile.h"
#include <immintrin.h>

#define BINADE_TILE_LANES 16
#define BINADE_TILE_ROWS 32

using namespace binade;
using namespace binade::tile;

#pragma clang attribute push(                                                  \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,"     \
                          "avx2,fma,f16c,amx-tile,amx-bf16"))),                \
    apply_to = function)
#include "../Execution/AmxTiles.h"
#include "TileFormats.h"

namespace {

/// Words of the contracted axis of which exchanged copies are kept. The left
/// panel and its copy stay in the L1 cache.
constexpr std::int64_t kPart = 128;
constexpr std::int64_t kPitch = kPart + kAmxRows;

/// Packs floats, as biases are.
void pack(const Source &source, std::int64_t width, float *to,
          std::int64_t pitch) {
  avx512.pack(source, width, to, pitch);
}

/// Replaces values of f16 by words of two bf16.
void split(float *values, std::int64_t count) {
  const __m512i upperMask = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  for (std::int64_t i = 0; i < count; i += kAmxRows) {
    __m512i bits = _mm512_loadu_si512(values + i);
    __m512i upper = _mm512_and_si512(bits, upperMask);
    __m512 lower =
        _mm512_sub_ps(_mm512_castsi512_ps(bits), _mm512_castsi512_ps(upper));
    _mm512_storeu_si512(values + i,
                        _mm512_or_si512(_mm512_castps_si512(lower),
                                        _mm512_srli_epi32(upper, 16)));
  }
}

/// Packs rows one after another, each of `source.depth` words, and pads the
/// last panel with rows of zeros.
void packLeft(const Source &source, std::int64_t width, float *to,
              std::int64_t) {
  Source turned = source;
  turned.count = source.depth;
  turned.countStride = source.depthStride;
  turned.depth = source.count;
  turned.depthStride = source.countStride;
  avx512.pack(turned, source.depth, to, 0);
  std::int64_t count = source.count * source.depth;
  std::int64_t padded =
      (source.count + width - 1) / width * width * source.depth;
  split(to, count);
  __builtin_memset(to + count, 0, (padded - count) * sizeof(float));
}

void packRight(const Source &source, std::int64_t width, float *to,
               std::int64_t pitch) {
  avx512.pack(source, width, to, pitch);
  for (std::int64_t start = 0; start < source.count; start += width)
    split(to + start / width * pitch, source.depth * width);
}

/// A part of a left panel, and the same with the halves of words exchanged.
/// Rows are 64 bytes longer than needed, so that they are in different sets of
/// the cache.
struct LeftPart {
  alignas(64) float words[panelRows * kPitch], exchanged[panelRows * kPitch];

  void copy(const float *from, std::int64_t pitch, std::int64_t depth) {
    for (std::int64_t i = 0; i < panelRows; ++i)
      for (std::int64_t l = 0; l < depth; l += kAmxRows) {
        __m512i x = _mm512_loadu_si512(from + i * pitch + l);
        _mm512_store_si512(words + i * kPitch + l, x);
        _mm512_store_si512(exchanged + i * kPitch + l, _mm512_rol_epi32(x, 16));
      }
  }
};

/// Multiplies a part of a left panel by one of a right panel. Tiles 0 to 3 are
/// the sums.
void multiplyPanels(const LeftPart &left, const float *right,
                    std::int64_t depth, float *sums, std::int64_t sumsPitch,
                    bool first) {
  std::int64_t sumBytes = sumsPitch * 4;
  constexpr std::int64_t leftBytes = kPitch * 4, rightBytes = panelColumns * 4;
  float *below = sums + kAmxRows * sumsPitch;
  if (first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, sumBytes);
    _tile_loadd(1, sums + kAmxRows, sumBytes);
    _tile_loadd(2, below, sumBytes);
    _tile_loadd(3, below + kAmxRows, sumBytes);
  }
  for (std::int64_t l = 0; l < depth; l += kAmxRows) {
    _tile_loadd(6, right + l * panelColumns, rightBytes);
    _tile_loadd(4, left.words + l, leftBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right + l * panelColumns + kAmxRows, rightBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, left.words + kAmxRows * kPitch + l, leftBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    _tile_loadd(4, left.exchanged + l, leftBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, left.exchanged + kAmxRows * kPitch + l, leftBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, sumBytes);
  _tile_stored(1, sums + kAmxRows, sumBytes);
  _tile_stored(2, below, sumBytes);
  _tile_stored(3, below + kAmxRows, sumBytes);
}

void multiply(const PackedMatmul &p) {
  LeftPart left;
  AmxTiles scope;
  for (std::int64_t row = 0; row < p.rows; row += panelRows) {
    float *sums = p.sums + row * p.sumsPitch;
    for (std::int64_t l = 0; l < p.depth; l += kPart) {
      std::int64_t depth = smaller(kPart, p.depth - l);
      left.copy(p.left + row * p.depth + l, p.depth, depth);
      for (std::int64_t column = 0; column < p.columns; column += panelColumns)
        multiplyPanels(left,
                       p.right + column / panelColumns * p.rightPitch +
                           l * panelColumns,
                       depth, sums + column, p.sumsPitch, p.first && l == 0);
    }
    if (p.last)
      for (std::int64_t column = 0; column < p.columns; column += panelColumns)
        store(sums + column, p.sumsPitch, p, row, column);
  }
}

} // namespace
#pragma clang attribute pop

const Kernels tile::amxHalf = {"amx",    panelRows, panelColumns, pack,
                               packLeft, packRight, multiply,     nullptr};
