//===- VectorEngine.h - Matmuls of blocks with vectors ----------*- C++ -*-===//
// An engine multiplies blocks of matrices. It takes the left side as rows, and
// of the right side `kGroup` rows interleaved: first the elements of column 0,
// then those of column 1, and so on. All sizes are multiples of `kMultiple`.
// `Unit` describes the multiply-adds of an instruction set.
//===----------------------------------------------------------------------===//

namespace {

/// Multiply-adds of f32, of operands that are rounded to `Format`.
template <typename Format> struct FloatUnit {
  using Element = float;
  static constexpr std::int64_t kGroup = 1;

  static Floats broadcast(const Element *from) { return Floats(*from); }
  static Floats multiplyAdd(Floats a, Floats b, Floats c) {
    return ::multiplyAdd(a, b, c);
  }
  /// Converts rows of `Format` to elements.
  static void copyRow(const Rows &rows, std::int64_t row, std::int64_t columns,
                      Element *to) {
    loadRow<Format>(
        reinterpret_cast<const typename Format::Stored *>(findRow(rows, row)),
        columns, to);
  }
  /// Rounds x to `Format`, and stores it as a part of a row.
  static void store(Element *to, Floats x) { storeAs(to, Format::round(x)); }
};

template <typename UnitType, int rowsAtOnce, int vectorsAtOnce>
struct VectorEngine : UnitType {
  using Unit = UnitType;
  using Element = typename Unit::Element;
  static constexpr std::int64_t kMultiple = kLanes * UnitType::kGroup;

  /// The engine needs no state of the thread.
  struct Scope {};

  /// Computes c = a b, or adds the product to c. `ldb` counts groups.
  static void multiply(const Element *a, std::int64_t lda, const Element *b,
                       std::int64_t ldb, float *c, std::int64_t ldc,
                       std::int64_t m, std::int64_t n, std::int64_t k,
                       bool accumulate) {
    std::int64_t j = 0;
    for (; j + vectorsAtOnce * kLanes <= n; j += vectorsAtOnce * kLanes)
      multiplyColumns<vectorsAtOnce>(a, lda, b + j * Unit::kGroup, ldb, c + j,
                                     ldc, m, k, accumulate);
    for (; j < n; j += kLanes)
      multiplyColumns<1>(a, lda, b + j * Unit::kGroup, ldb, c + j, ldc, m, k,
                         accumulate);
  }

private:
  template <int vectors>
  static void multiplyColumns(const Element *a, std::int64_t lda,
                              const Element *b, std::int64_t ldb, float *c,
                              std::int64_t ldc, std::int64_t m, std::int64_t k,
                              bool accumulate) {
    for (std::int64_t i = 0; i < m; i += rowsAtOnce)
      multiplyBlock<vectors>(a + i * lda, lda, b, ldb, c + i * ldc, ldc, k,
                             accumulate);
  }

  template <int vectors>
  static void multiplyBlock(const Element *a, std::int64_t lda,
                            const Element *b, std::int64_t ldb, float *c,
                            std::int64_t ldc, std::int64_t k, bool accumulate) {
    Floats sums[rowsAtOnce][vectors];
#pragma clang loop unroll(full)
    for (int i = 0; i < rowsAtOnce; ++i)
#pragma clang loop unroll(full)
      for (int j = 0; j < vectors; ++j)
        sums[i][j] =
            accumulate ? loadAs<Floats>(c + i * ldc + j * kLanes) : Floats(0);
    for (std::int64_t l = 0; l < k; l += Unit::kGroup) {
      Floats right[vectors];
#pragma clang loop unroll(full)
      for (int j = 0; j < vectors; ++j)
        right[j] = loadAs<Floats>(b + j * kLanes * Unit::kGroup);
#pragma clang loop unroll(full)
      for (int i = 0; i < rowsAtOnce; ++i) {
        Floats left = Unit::broadcast(a + i * lda + l);
#pragma clang loop unroll(full)
        for (int j = 0; j < vectors; ++j)
          sums[i][j] = Unit::multiplyAdd(left, right[j], sums[i][j]);
      }
      b += ldb * Unit::kGroup;
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < rowsAtOnce; ++i)
#pragma clang loop unroll(full)
      for (int j = 0; j < vectors; ++j)
        storeAs(c + i * ldc + j * kLanes, sums[i][j]);
  }
};

} // namespace
