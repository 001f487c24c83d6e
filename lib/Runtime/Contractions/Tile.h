//===- Tile.h - Packed products of blocks on one thread ---------*- C++ -*-===//
// The innermost part of the own contraction, compiled once for AVX2 and once
// for AVX-512. Both sides are converted to f32 and packed: panels of `rows`
// (left) or `columns` (right) elements that belong to one position of the
// contracted axis lie together, zeros fill the last panel.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_TILE_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_TILE_H

#include "binade/Container/DType.h"

namespace binade::tile {

/// `count` x `depth` elements of F32, BF16, F16, F8_E4M3 or F8_E5M2; strides in
/// elements.
struct Source {
  const void *data = nullptr;
  DType dtype = DType::F32;
  std::int64_t count = 0, countStride = 0; ///< Rows of the left side, columns
                                           ///< of the right side.
  std::int64_t depth = 0, depthStride = 0; ///< The contracted axis.
};

/// Where results go: round(scale * sum + bias[column] (+ old element)).
struct Target {
  void *data = nullptr;
  DType dtype = DType::F32;
  std::int64_t rowStride = 0, columnStride = 0;
  const float *bias = nullptr; ///< One per column; may be null.
  bool accumulate = false;
  float scale = 1;
};

/// sums[i, j] += sum over depth of left[i, l] * right[l, j], one fused
/// multiply-add after the other.
struct Product {
  const float *left = nullptr;  ///< Panels of `depth` positions.
  const float *right = nullptr; ///< First position of the first panel.
  std::int64_t rightPitch = 0;  ///< Distance of panels.
  std::int64_t rows = 0, columns = 0, depth = 0;
  float *sums = nullptr; ///< Rows padded to panels, at `sumsPitch`.
  std::int64_t sumsPitch = 0;
  bool first = true; ///< Sums start at 0.
  bool last = true;  ///< Sums are complete: they go to `target`.
  Target target;
};

/// Rows of `channels` elements each, which begin at `offsets` (elements of
/// `data`); a row at -1 is zeros.
struct Gather {
  const void *data = nullptr;
  DType dtype = DType::F32;
  const std::int64_t *offsets = nullptr;
  std::int64_t rows = 0, channels = 0, channelStride = 0;
  float *to = nullptr;
  std::int64_t pitch = 0; ///< Of rows of `to`.
};

struct Kernels {
  const char *name;
  std::int64_t rows, columns; ///< Of one panel of the left, of the right side.
  /// Packs into panels of `width`; panel p starts at `to + p * pitch` and
  /// takes depth * width floats (the last may be followed by up to 8 floats of
  /// garbage unless `width` is a multiple of 8).
  void (*pack)(const Source &source, std::int64_t width, float *to,
               std::int64_t pitch);
  void (*multiply)(const Product &product);
  void (*gather)(const Gather &gather);
};

extern const Kernels avx2, avx512;

/// The widest that this CPU has; BINADE_ISA limits it as it does kernels.
const Kernels &kernels();

} // namespace binade::tile

#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_TILE_H
