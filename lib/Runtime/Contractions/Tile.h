//===- Tile.h - Microkernels for contractions -------------------*- C++ -*-===//
// The inner kernels of Binade's own contractions, compiled for AVX2 and for
// AVX-512. Both sides are converted to f32 and packed into panels: for each
// position of the contracted axis, the `rows` (left) or `columns` (right)
// elements of a panel are adjacent. The last panel is padded with zeros.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_TILE_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_TILE_H

#include "binade/Container/DType.h"

namespace binade::tile {

/// An unpacked operand: `count` x `depth` elements of F32, BF16, F16, F8_E4M3
/// or F8_E5M2; strides in elements.
struct Source {
  const void *data = nullptr;
  DType dtype = DType::F32;
  std::int64_t count = 0, countStride = 0; ///< Rows of the left side, columns
                                           ///< of the right side.
  std::int64_t depth = 0, depthStride = 0; ///< The contracted axis.
};

/// The output: round(scale * sum + bias[column] (+ old element)).
struct Target {
  void *data = nullptr;
  DType dtype = DType::F32;
  std::int64_t rowStride = 0, columnStride = 0;
  const float *bias = nullptr; ///< One per column; may be null.
  bool accumulate = false;
  float scale = 1;
};

/// A matmul of packed blocks: sums[i, j] += left[i, l] * right[l, j], summed
/// over l with sequential fused multiply-adds.
struct PackedMatmul {
  const float *left = nullptr;  ///< Panels of `depth` positions.
  const float *right = nullptr; ///< First position of the first panel.
  std::int64_t rightPitch = 0;  ///< Distance of right panels in floats.
  std::int64_t rows = 0, columns = 0, depth = 0;
  float *sums = nullptr; ///< Rows padded to panels, at `sumsPitch`.
  std::int64_t sumsPitch = 0;
  bool first = true; ///< Whether sums start at 0.
  bool last = true;  ///< Whether sums are complete and written to `target`.
  Target target;
};

/// A gather of rows of `channels` elements into f32. Row i starts at element
/// `offsets[i]` of `data`; an offset of -1 gives zeros.
struct Gather {
  const void *data = nullptr;
  DType dtype = DType::F32;
  const std::int64_t *offsets = nullptr;
  std::int64_t rows = 0, channels = 0, channelStride = 0;
  float *to = nullptr;
  std::int64_t pitch = 0; ///< Distance of rows of `to` in floats.
};

/// The kernels for one instruction set.
struct Kernels {
  const char *name;
  std::int64_t rows, columns; ///< Sizes of a left and of a right panel.
  /// Packs an operand into panels of `width`. Panel p starts at `to + p *
  /// pitch` and has depth * width floats. Unless `width` is a multiple of 8, up
  /// to 8 floats after the last panel may be overwritten.
  void (*pack)(const Source &source, std::int64_t width, float *to,
               std::int64_t pitch);
  /// Packs the left or the right side for `multiply`, into as many words.
  void (*packLeft)(const Source &source, std::int64_t width, float *to,
                   std::int64_t pitch);
  void (*packRight)(const Source &source, std::int64_t width, float *to,
                    std::int64_t pitch);
  void (*multiply)(const PackedMatmul &product);
  void (*gather)(const Gather &gather);
};

extern const Kernels avx2, avx512;

/// The kernels for products of finite F16 operands on AMX, which multiplies
/// bf16 and adds in f32. An f16 has 11 significant bits and is the sum of two
/// bf16, of which a packed word consists. `multiply` adds all four exact
/// products, so it differs from the other kernels only in the order of
/// additions. The contracted axis is a multiple of `kAmxDepth`.
extern const Kernels amxHalf;
constexpr std::int64_t kAmxDepth = 16;

/// Returns the kernels for the widest instruction set of this CPU, limited by
/// the environment variable BINADE_ISA.
const Kernels &kernels();

} // namespace binade::tile

#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_TILE_H
