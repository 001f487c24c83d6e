//===- TileKernels.h - Code of the microkernels -----------------*- C++ -*-===//
// TileAvx2.cpp and TileAvx512.cpp include this file in a region in which all
// functions are compiled for that instruction set. All functions are local to
// the including file. Do not use functions of the standard library here: the
// linker might use the copy that is compiled in this region for callers on
// machines without these instructions.
//===----------------------------------------------------------------------===//

#include "TileFormats.h"

namespace {

using Vector = float __attribute__((ext_vector_type(lanes)));

/// Transposes 8 x 8 floats: afterwards x[l] has element l of all eight rows.
inline void transpose(Float8 x[8]) {
  Float8 y[8];
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) {
    y[2 * i] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 0, 8, 1, 9, 4,
                                       12, 5, 13);
    y[2 * i + 1] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 2, 10, 3, 11,
                                           6, 14, 7, 15);
  }
  Float8 z[8];
#pragma clang loop unroll(full)
  for (int i = 0; i < 2; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < 2; ++j) {
      z[4 * i + 2 * j] = __builtin_shufflevector(y[4 * i + j], y[4 * i + j + 2],
                                                 0, 1, 8, 9, 4, 5, 12, 13);
      z[4 * i + 2 * j + 1] = __builtin_shufflevector(
          y[4 * i + j], y[4 * i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) {
    x[i] = __builtin_shufflevector(z[i], z[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    x[i + 4] =
        __builtin_shufflevector(z[i], z[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// Packs one panel whose source is dense along the contracted axis. Stores
/// write eight floats at a time. If `width` is not a multiple of eight, the
/// stores of the last group also overwrite the first rows of the next position,
/// which are written later, because groups are stored in descending order and
/// positions in ascending order.
template <typename Type>
void packAlongDepth(const typename Type::Stored *from, std::int64_t stride,
                    std::int64_t count, std::int64_t depth, std::int64_t width,
                    float *to) {
  std::int64_t l = 0;
  for (; l + 8 <= depth; l += 8) {
    for (std::int64_t group = (width - 1) / 8 * 8; group >= 0; group -= 8) {
      Float8 x[8];
#pragma clang loop unroll(full)
      for (std::int64_t i = 0; i < 8; ++i)
        x[i] = group + i < count ? Type::load8(from + (group + i) * stride + l)
                                 : Float8{};
      transpose(x);
#pragma clang loop unroll(full)
      for (std::int64_t i = 0; i < 8; ++i)
        __builtin_memcpy(to + (l + i) * width + group, &x[i], sizeof(x[i]));
    }
  }
  for (; l < depth; ++l)
    for (std::int64_t i = 0; i < width; ++i)
      to[l * width + i] = i < count ? Type::load(from[i * stride + l]) : 0.0f;
}

/// Packs one panel whose source is dense along rows (or columns).
template <typename Type>
void packAlongCount(const typename Type::Stored *from, std::int64_t depthStride,
                    std::int64_t count, std::int64_t depth, std::int64_t width,
                    float *to) {
  for (std::int64_t l = 0; l < depth; ++l, from += depthStride, to += width) {
    std::int64_t i = 0;
    for (; i + 8 <= smaller(count, width); i += 8) {
      Float8 x = Type::load8(from + i);
      __builtin_memcpy(to + i, &x, sizeof(x));
    }
    for (; i < width; ++i)
      to[i] = i < count ? Type::load(from[i]) : 0.0f;
  }
}

template <typename Type>
void packAs(const Source &source, std::int64_t width, float *to,
            std::int64_t pitch) {
  auto *from = static_cast<const typename Type::Stored *>(source.data);
  for (std::int64_t start = 0; start < source.count; start += width) {
    std::int64_t count = smaller(width, source.count - start);
    if (source.depthStride == 1) {
      packAlongDepth<Type>(from, source.countStride, count, source.depth, width,
                           to);
    } else if (source.countStride == 1) {
      packAlongCount<Type>(from, source.depthStride, count, source.depth, width,
                           to);
    } else {
      for (std::int64_t l = 0; l < source.depth; ++l)
        for (std::int64_t i = 0; i < width; ++i)
          to[l * width + i] =
              i < count
                  ? Type::load(
                        from[i * source.countStride + l * source.depthStride])
                  : 0.0f;
    }
    from += width * source.countStride;
    to += pitch;
  }
}

void pack(const Source &source, std::int64_t width, float *to,
          std::int64_t pitch) {
  switch (source.dtype) {
  case DType::F32:
    return packAs<F32>(source, width, to, pitch);
  case DType::BF16:
    return packAs<BF16>(source, width, to, pitch);
  case DType::F8_E4M3:
    return packAs<E4M3>(source, width, to, pitch);
  case DType::F8_E5M2:
    return packAs<E5M2>(source, width, to, pitch);
  default:
    return packAs<F16>(source, width, to, pitch);
  }
}

template <typename Type> void gatherAs(const Gather &g) {
  float *to = g.to;
  for (std::int64_t row = 0; row < g.rows; ++row, to += g.pitch) {
    auto *from = static_cast<const typename Type::Stored *>(g.data);
    std::int64_t offset = g.offsets[row], c = 0;
    if (offset < 0) {
      for (; c < g.channels; ++c)
        to[c] = 0;
      continue;
    }
    from += offset;
    if (g.channelStride == 1)
      for (; c + 8 <= g.channels; c += 8) {
        Float8 x = Type::load8(from + c);
        __builtin_memcpy(to + c, &x, sizeof(x));
      }
    for (; c < g.channels; ++c)
      to[c] = Type::load(from[c * g.channelStride]);
  }
}

void gather(const Gather &g) {
  if (g.dtype == DType::F32)
    gatherAs<F32>(g);
  else if (g.dtype == DType::BF16)
    gatherAs<BF16>(g);
  else
    gatherAs<F16>(g);
}

/// Multiplies one left panel by one right panel; all sums are in registers.
void multiplyPanels(const float *left, const float *right, std::int64_t depth,
                    float *sums, std::int64_t pitch, bool first) {
  Vector c[panelRows][panelVectors];
#pragma clang loop unroll(full)
  for (std::int64_t i = 0; i < panelRows; ++i)
#pragma clang loop unroll(full)
    for (std::int64_t j = 0; j < panelVectors; ++j)
      if (first)
        c[i][j] = Vector{};
      else
        __builtin_memcpy(&c[i][j], sums + i * pitch + j * lanes,
                         sizeof(Vector));
  for (std::int64_t l = 0; l < depth; ++l) {
    Vector b[panelVectors];
#pragma clang loop unroll(full)
    for (std::int64_t j = 0; j < panelVectors; ++j)
      __builtin_memcpy(&b[j], right + j * lanes, sizeof(Vector));
#pragma clang loop unroll(full)
    for (std::int64_t i = 0; i < panelRows; ++i) {
      Vector a = left[i];
#pragma clang loop unroll(full)
      for (std::int64_t j = 0; j < panelVectors; ++j)
        c[i][j] = __builtin_elementwise_fma(a, b[j], c[i][j]);
    }
    left += panelRows;
    right += panelColumns;
  }
#pragma clang loop unroll(full)
  for (std::int64_t i = 0; i < panelRows; ++i)
#pragma clang loop unroll(full)
    for (std::int64_t j = 0; j < panelVectors; ++j)
      __builtin_memcpy(sums + i * pitch + j * lanes, &c[i][j], sizeof(Vector));
}

void multiply(const PackedMatmul &p) {
  alignas(64) float local[panelRows * panelColumns];
  // The right panel stays in the L1 cache for all left panels.
  for (std::int64_t column = 0; column < p.columns; column += panelColumns) {
    const float *right = p.right + column / panelColumns * p.rightPitch;
    for (std::int64_t row = 0; row < p.rows; row += panelRows) {
      const float *left = p.left + row * p.depth;
      bool alone = p.first && p.last;
      float *sums = alone ? local : p.sums + row * p.sumsPitch + column;
      std::int64_t pitch = alone ? panelColumns : p.sumsPitch;
      multiplyPanels(left, right, p.depth, sums, pitch, p.first);
      if (p.last)
        store(sums, pitch, p, row, column);
    }
  }
}

} // namespace
