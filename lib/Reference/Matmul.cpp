//===- Matmul.cpp - Matmul in f64 -----------------------------------------===//
//
// Fast enough to evaluate models of a hundred million parameters: tiles of sums
// stay in registers, in vectors as wide as the CPU's.
//
//===----------------------------------------------------------------------===//

#include "Matmul.h"
#include <algorithm>
#include <vector>

using namespace llvm;

/// The size of a tile of sums, and the number of summands for which a panel of
/// `rhs` stays in the cache.
static constexpr int64_t kRows = 4, kColumns = 16, kSummands = 256;

namespace {
struct Operands {
  const double *lhs, *rhs;
  double *y;
  int64_t m, k, n;
};
} // namespace

[[gnu::always_inline]] static inline void multiply(const Operands &o,
                                                   double *panel) {
  for (int64_t first = 0; first < o.k; first += kSummands) {
    int64_t last = std::min(o.k, first + kSummands);
    for (int64_t column = 0; column < o.n; column += kColumns) {
      int64_t columns = std::min(kColumns, o.n - column);
      for (int64_t l = first; l < last; ++l)
        for (int64_t j = 0; j < kColumns; ++j)
          panel[(l - first) * kColumns + j] =
              j < columns ? o.rhs[l * o.n + column + j] : 0.0;
      for (int64_t row = 0; row < o.m; row += kRows) {
        int64_t rows = std::min(kRows, o.m - row);
        // Beyond the last row, a tile repeats it, and the results are
        // discarded.
        double sums[kRows][kColumns];
        const double *factors[kRows];
        for (int64_t i = 0; i < kRows; ++i) {
          int64_t from = row + std::min(i, rows - 1);
          factors[i] = o.lhs + from * o.k;
          for (int64_t j = 0; j < kColumns; ++j)
            sums[i][j] = j < columns ? o.y[from * o.n + column + j] : 0.0;
        }
        for (int64_t l = first; l < last; ++l)
          for (int64_t i = 0; i < kRows; ++i)
            for (int64_t j = 0; j < kColumns; ++j)
              sums[i][j] += factors[i][l] * panel[(l - first) * kColumns + j];
        for (int64_t i = 0; i < rows; ++i)
          std::copy_n(sums[i], columns, o.y + (row + i) * o.n + column);
      }
    }
  }
}

[[gnu::target("avx512f")]] static void multiplyAvx512(const Operands &o,
                                                      double *panel) {
  multiply(o, panel);
}

[[gnu::target("avx2")]] static void multiplyAvx2(const Operands &o,
                                                 double *panel) {
  multiply(o, panel);
}

static void multiplyAnywhere(const Operands &o, double *panel) {
  multiply(o, panel);
}

void mlir::binade::accumulateMatmul(ArrayRef<double> lhs, ArrayRef<double> rhs,
                                    MutableArrayRef<double> y, int64_t m,
                                    int64_t k, int64_t n) {
  static const auto widest = __builtin_cpu_supports("avx512f") ? multiplyAvx512
                             : __builtin_cpu_supports("avx2")
                                 ? multiplyAvx2
                                 : multiplyAnywhere;
  std::vector<double> panel(kSummands * kColumns);
  widest({lhs.data(), rhs.data(), y.data(), m, k, n}, panel.data());
}
