//===- Vectors.h - Vectors of 16 elements -----------------------*- C++ -*-===//
// The files of the instruction sets include this header, and those that build
// on it, in a region in which all functions are compiled for that set. A vector
// of 16 floats is one register with AVX-512 and two with AVX2, so that results
// do not depend on the width of registers. Do not use functions of the standard
// library here: the linker might use the copy that is compiled in this region
// for callers on machines without these instructions.
//===----------------------------------------------------------------------===//

namespace {

constexpr std::int64_t kLanes = 16;

using Floats = float __attribute__((ext_vector_type(16)));
using Words = std::uint32_t __attribute__((ext_vector_type(16)));
using Masks = std::int32_t __attribute__((ext_vector_type(16)));
using Longs = std::uint64_t __attribute__((ext_vector_type(8)));
using Halves = std::uint16_t __attribute__((ext_vector_type(16)));
using Float16s = _Float16 __attribute__((ext_vector_type(16)));

template <typename Vector> inline Vector loadAs(const void *from) {
  Vector x;
  __builtin_memcpy(&x, from, sizeof(x));
  return x;
}
template <typename Vector> inline void storeAs(void *to, Vector x) {
  __builtin_memcpy(to, &x, sizeof(x));
}
template <typename To, typename From> inline To bitsOf(From x) {
  return __builtin_bit_cast(To, x);
}

constexpr Masks kLaneNumbers = {0, 1, 2,  3,  4,  5,  6,  7,
                                8, 9, 10, 11, 12, 13, 14, 15};

/// Returns a mask of the first `count` lanes.
inline Masks getFirstLanes(std::int64_t count) {
  return kLaneNumbers < static_cast<std::int32_t>(count);
}

template <int... lanes> struct Lanes {};
template <int... lanes> inline Floats fold(Floats x, Lanes<lanes...>) {
  return __builtin_shufflevector(x, x, lanes...);
}
using SwapBy8 = Lanes<8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7>;
using SwapBy4 = Lanes<4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11>;
using SwapBy2 = Lanes<2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13>;
using SwapBy1 = Lanes<1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14>;

/// Returns NaN if either is NaN.
inline Floats getLarger(Floats a, Floats b) {
  return (a > b) | (a != a) ? a : b;
}

/// Returns the sum of all lanes, added as a tree.
inline float sumLanes(Floats x) {
  x += fold(x, SwapBy8());
  x += fold(x, SwapBy4());
  x += fold(x, SwapBy2());
  x += fold(x, SwapBy1());
  return x[0];
}

inline float findLargestLane(Floats x) {
  x = getLarger(x, fold(x, SwapBy8()));
  x = getLarger(x, fold(x, SwapBy4()));
  x = getLarger(x, fold(x, SwapBy2()));
  x = getLarger(x, fold(x, SwapBy1()));
  return x[0];
}

inline Floats multiplyAdd(Floats a, Floats b, Floats c) {
  return __builtin_elementwise_fma(a, b, c);
}

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

struct F32 {
  using Stored = float;
  static Floats load(const Stored *from) { return loadAs<Floats>(from); }
  static void store(Stored *to, Floats x) { storeAs(to, x); }
  static Floats round(Floats x) { return x; }
};

struct BF16 {
  using Stored = std::uint16_t;
  static Floats load(const Stored *from) {
    return bitsOf<Floats>(__builtin_convertvector(loadAs<Halves>(from), Words)
                          << 16);
  }
  /// Returns words whose upper halves are x in bf16.
  static Words roundWords(Floats x) {
    Words u = bitsOf<Words>(x), rounded = u + 0x7fff + ((u >> 16) & 1);
    return x != x ? Words(0x7fc00000) : rounded;
  }
  static void store(Stored *to, Floats x) {
    storeAs(to, __builtin_convertvector(roundWords(x) >> 16, Halves));
  }
  static Floats round(Floats x) {
    return bitsOf<Floats>(roundWords(x) & 0xffff0000);
  }
};

struct F16 {
  using Stored = std::uint16_t;
  static Floats load(const Stored *from) {
    return __builtin_convertvector(loadAs<Float16s>(from), Floats);
  }
  static void store(Stored *to, Floats x) {
    storeAs(to, __builtin_convertvector(x, Float16s));
  }
  static Floats round(Floats x) {
    return __builtin_convertvector(__builtin_convertvector(x, Float16s),
                                   Floats);
  }
};

/// Converts `count` elements to floats.
template <typename Format>
inline void loadRow(const typename Format::Stored *from, std::int64_t count,
                    float *to) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    storeAs(to + i, Format::load(from + i));
  if (i == count)
    return;
  typename Format::Stored padded[kLanes] = {};
  __builtin_memcpy(padded, from + i, (count - i) * sizeof(padded[0]));
  Floats last = Format::load(padded);
  __builtin_memcpy(to + i, &last, (count - i) * sizeof(float));
}

/// Rounds `count` floats, which may be followed by others up to a multiple of
/// the lanes.
template <typename Format>
inline void storeRow(const float *from, std::int64_t count,
                     typename Format::Stored *to) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    Format::store(to + i, loadAs<Floats>(from + i));
  if (i == count)
    return;
  typename Format::Stored padded[kLanes];
  Format::store(padded, loadAs<Floats>(from + i));
  __builtin_memcpy(to + i, padded, (count - i) * sizeof(padded[0]));
}

inline std::int64_t getSmaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
inline std::int64_t roundUpTo(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

inline std::byte *findRow(const Rows &rows, std::int64_t row) {
  std::int64_t bytes = rows.dtype == DType::F32 ? 4 : 2;
  return rows.data + row * rows.stride * bytes;
}

/// Loads a row of any format.
inline void loadRow(const Rows &rows, std::int64_t row, std::int64_t columns,
                    float *to) {
  std::byte *from = findRow(rows, row);
  if (rows.dtype == DType::F32)
    loadRow<F32>(reinterpret_cast<const float *>(from), columns, to);
  else if (rows.dtype == DType::BF16)
    loadRow<BF16>(reinterpret_cast<const std::uint16_t *>(from), columns, to);
  else
    loadRow<F16>(reinterpret_cast<const std::uint16_t *>(from), columns, to);
}

inline void storeRow(const float *from, std::int64_t columns, const Rows &rows,
                     std::int64_t row) {
  std::byte *to = findRow(rows, row);
  if (rows.dtype == DType::F32)
    storeRow<F32>(from, columns, reinterpret_cast<float *>(to));
  else if (rows.dtype == DType::BF16)
    storeRow<BF16>(from, columns, reinterpret_cast<std::uint16_t *>(to));
  else
    storeRow<F16>(from, columns, reinterpret_cast<std::uint16_t *>(to));
}

//===----------------------------------------------------------------------===//
// Transposition
//===----------------------------------------------------------------------===//

/// Swaps the lanes of `a` whose number has bit `step` with the lanes of `b`
/// whose number lacks it.
template <int step, int... lane>
inline void exchange(Words &a, Words &b, Lanes<lane...>) {
  Words first = __builtin_shufflevector(
      a, b, ((lane & step) ? 16 + lane - step : lane)...);
  b = __builtin_shufflevector(a, b,
                              ((lane & step) ? 16 + lane : lane + step)...);
  a = first;
}

template <int step> inline void exchangeAll(Words x[16]) {
#pragma clang loop unroll(full)
  for (int i = 0; i < 16; ++i)
    if (!(i & step))
      exchange<step>(
          x[i], x[i + step],
          Lanes<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>());
}

/// Transposes a matrix of words. `rows` and `columns` are multiples of 16,
/// pitches are in words.
inline void transposeWords(const void *from, std::int64_t fromPitch,
                           std::int64_t rows, std::int64_t columns, void *to,
                           std::int64_t toPitch) {
  auto *source = static_cast<const std::uint32_t *>(from);
  auto *target = static_cast<std::uint32_t *>(to);
  for (std::int64_t row = 0; row < rows; row += kLanes)
    for (std::int64_t column = 0; column < columns; column += kLanes) {
      Words x[kLanes];
#pragma clang loop unroll(full)
      for (int i = 0; i < kLanes; ++i)
        x[i] = loadAs<Words>(source + (row + i) * fromPitch + column);
      exchangeAll<8>(x);
      exchangeAll<4>(x);
      exchangeAll<2>(x);
      exchangeAll<1>(x);
#pragma clang loop unroll(full)
      for (int i = 0; i < kLanes; ++i)
        storeAs(target + (column + i) * toPitch + row, x[i]);
    }
}

} // namespace
