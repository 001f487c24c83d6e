//===- TileFormats.h - Formats and results of microkernels ------*- C++ -*-===//
// See TileKernels.h. Each file that includes it defines
//   BINADE_TILE_LANES    floats per vector
//   BINADE_TILE_ROWS     rows of a left panel
//===----------------------------------------------------------------------===//

namespace {

constexpr std::int64_t lanes = BINADE_TILE_LANES;
constexpr std::int64_t panelRows = BINADE_TILE_ROWS;
constexpr std::int64_t panelVectors = 2;
constexpr std::int64_t panelColumns = panelVectors * lanes;

using Float8 = float __attribute__((vector_size(32)));
using Word8 = std::uint32_t __attribute__((vector_size(32)));
using Half8 = std::uint16_t __attribute__((vector_size(16)));
using Float16x8 = _Float16 __attribute__((vector_size(16)));

struct F32 {
  using Stored = float;
  static float load(Stored x) { return x; }
  static Float8 load8(const Stored *from) {
    Float8 x;
    __builtin_memcpy(&x, from, sizeof(x));
    return x;
  }
  static Stored round(float x) { return x; }
};

struct BF16 {
  using Stored = std::uint16_t;
  static float load(Stored x) {
    return __builtin_bit_cast(float, std::uint32_t(x) << 16);
  }
  static Float8 load8(const Stored *from) {
    Half8 x;
    __builtin_memcpy(&x, from, sizeof(x));
    Word8 word = __builtin_convertvector(x, Word8) << 16;
    return __builtin_bit_cast(Float8, word);
  }
  static Stored round(float x) {
    std::uint32_t u = __builtin_bit_cast(std::uint32_t, x);
    std::uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return static_cast<Stored>((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0
                                                             : rounded);
  }
};

struct F16 {
  using Stored = std::uint16_t;
  static float load(Stored x) {
    return static_cast<float>(__builtin_bit_cast(_Float16, x));
  }
  static Float8 load8(const Stored *from) {
    Float16x8 x;
    __builtin_memcpy(&x, from, sizeof(x));
    return __builtin_convertvector(x, Float8);
  }
  static Stored round(float x) {
    Stored bits = __builtin_bit_cast(Stored, static_cast<_Float16>(x));
    return x != x ? Stored(0x7e00) : bits;
  }
};

/// FP8 elements; they occur only as operands, so there is no `round`.
template <typename Code> struct Codes {
  using Stored = std::uint8_t;
  static Float8 load8(const Stored *from) {
    Float8 x;
#pragma clang loop unroll(full)
    for (int i = 0; i < 8; ++i)
      x[i] = Code::load(from[i]);
    return x;
  }
};

/// E5M2 is the upper byte of an f16.
struct E5M2 : Codes<E5M2> {
  static float load(Stored x) {
    return F16::load(static_cast<F16::Stored>(x << 8));
  }
};

/// E4M3 is an f16 with another exponent bias, except for its NaN.
struct E4M3 : Codes<E4M3> {
  static float load(Stored x) {
    if ((x & 0x7f) == 0x7f)
      return __builtin_nanf("");
    return F16::load(
               static_cast<F16::Stored>((x & 0x80) << 8 | (x & 0x7f) << 7)) *
           256.0f;
  }
};

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// Rounds one row of sums into the target.
template <typename Type>
void storeRow(const float *sums, std::int64_t count, float scale,
              const float *bias, bool accumulate, typename Type::Stored *to,
              std::int64_t stride) {
  for (std::int64_t j = 0; j < count; ++j) {
    float sum = sums[j] * scale;
    if (bias)
      sum += bias[j];
    if (accumulate)
      sum += Type::load(to[j * stride]);
    to[j * stride] = Type::round(sum);
  }
}

template <typename Type>
void storeAs(const float *sums, std::int64_t pitch, std::int64_t rows,
             std::int64_t columns, const Target &target) {
  auto *to = static_cast<typename Type::Stored *>(target.data);
  for (std::int64_t i = 0; i < rows;
       ++i, sums += pitch, to += target.rowStride) {
    // With a constant stride of 1 the compiler vectorizes the loop.
    if (target.columnStride == 1)
      storeRow<Type>(sums, columns, target.scale, target.bias,
                     target.accumulate, to, 1);
    else
      storeRow<Type>(sums, columns, target.scale, target.bias,
                     target.accumulate, to, target.columnStride);
  }
}

/// Writes the sums of the panel that starts at (row, column) to the target.
void store(const float *sums, std::int64_t pitch, const PackedMatmul &p,
           std::int64_t row, std::int64_t column) {
  Target target = p.target;
  std::int64_t offset = row * target.rowStride + column * target.columnStride;
  std::int64_t size = target.dtype == DType::F32 ? 4 : 2;
  target.data = static_cast<char *>(target.data) + offset * size;
  if (target.bias)
    target.bias += column;
  std::int64_t rows = smaller(panelRows, p.rows - row);
  std::int64_t columns = smaller(panelColumns, p.columns - column);
  if (target.dtype == DType::F32)
    storeAs<F32>(sums, pitch, rows, columns, target);
  else if (target.dtype == DType::BF16)
    storeAs<BF16>(sums, pitch, rows, columns, target);
  else
    storeAs<F16>(sums, pitch, rows, columns, target);
}

} // namespace
