//===- Accumulation.cpp - Accumulators of matrix units --------------------===//
//
// In integers, one product after the other, as `#binade.accumulation` defines
// it.
//
//===----------------------------------------------------------------------===//

#include "Accumulation.h"
#include "binade/Reference/FloatFormat.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

namespace {
/// significand 2^unit; `exponent` is that by which numbers are aligned.
struct AlignedNumber {
  int64_t significand = 0;
  int unit = 0, exponent = 0;
};

/// The elements of an operand, row by row along the contracted axis.
struct AlignedOperand {
  std::vector<AlignedNumber> numbers;
  ArrayRef<double> values;
};

class Accumulator {
public:
  explicit Accumulator(AccumulationAttr accumulation)
      : bits(accumulation.getBits()), step(accumulation.getStep()),
        promote(accumulation.getPromote()) {}

  /// Returns the f32 sum of the products of `count` elements from `lhs` and
  /// `rhs` on.
  float add(const AlignedOperand &lhs, int64_t left, const AlignedOperand &rhs,
            int64_t right, int64_t count) const;

private:
  AlignedNumber addStep(AlignedNumber sum, ArrayRef<AlignedNumber> lhs,
                        ArrayRef<AlignedNumber> rhs) const;
  /// Truncates to a multiple of 2^unit, and returns the factor.
  static int64_t truncate(const AlignedNumber &number, int unit);

  int64_t bits, step, promote;
};
} // namespace

/// Returns `x`, a finite value of `format`, as an integer and an exponent.
static AlignedNumber splitElement(double x, const FloatFormat &format) {
  if (x == 0.0 || !std::isfinite(x))
    return {};
  int exponent = std::max(std::ilogb(x), format.minExponent);
  int unit = exponent - (format.precision - 1);
  return {static_cast<int64_t>(std::ldexp(x, -unit)), unit, exponent};
}

static AlignedOperand splitElements(const Tensor &x) {
  FloatFormat format(
      cast<FloatType>(x.getType().getElementType()).getFloatSemantics());
  AlignedOperand operand;
  operand.values = x.getFloats();
  for (double value : operand.values)
    operand.numbers.push_back(splitElement(value, format));
  return operand;
}

int64_t Accumulator::truncate(const AlignedNumber &number, int unit) {
  int shift = number.unit - unit;
  if (shift >= 0)
    return number.significand * (int64_t(1) << shift);
  // Division of integers truncates.
  return -shift > 62 ? 0 : number.significand / (int64_t(1) << -shift);
}

AlignedNumber Accumulator::addStep(AlignedNumber sum,
                                   ArrayRef<AlignedNumber> lhs,
                                   ArrayRef<AlignedNumber> rhs) const {
  SmallVector<AlignedNumber> terms;
  if (sum.significand != 0)
    terms.push_back(sum);
  for (auto [a, b] : llvm::zip_equal(lhs, rhs))
    if (a.significand != 0 && b.significand != 0)
      terms.push_back({a.significand * b.significand, a.unit + b.unit,
                       a.exponent + b.exponent});
  if (terms.empty())
    return {};
  int largest = terms.front().exponent;
  for (const AlignedNumber &term : terms)
    largest = std::max(largest, term.exponent);
  AlignedNumber total{0, largest - static_cast<int>(bits) + 1, 0};
  for (const AlignedNumber &term : terms)
    total.significand += truncate(term, total.unit);
  while (std::abs(total.significand) >= int64_t(1) << bits)
    total = {total.significand / 2, total.unit + 1, 0};
  if (total.significand != 0)
    total.exponent =
        std::ilogb(static_cast<double>(total.significand)) + total.unit;
  return total;
}

float Accumulator::add(const AlignedOperand &lhs, int64_t left,
                       const AlignedOperand &rhs, int64_t right,
                       int64_t count) const {
  double special = 0.0;
  for (int64_t l = 0; l < count; ++l) {
    double product = lhs.values[left + l] * rhs.values[right + l];
    if (!std::isfinite(product))
      special += product;
  }
  if (special != 0.0)
    return static_cast<float>(special);
  float total = 0.0f;
  AlignedNumber sum;
  auto promoteSum = [&] {
    total += static_cast<float>(
        std::ldexp(static_cast<double>(sum.significand), sum.unit));
    sum = {};
  };
  for (int64_t l = 0; l < count; l += step) {
    if (promote != 0 && l != 0 && l % promote == 0)
      promoteSum();
    int64_t terms = std::min(step, count - l);
    sum = addStep(sum, ArrayRef(lhs.numbers).slice(left + l, terms),
                  ArrayRef(rhs.numbers).slice(right + l, terms));
  }
  promoteSum();
  return total;
}

void mlir::binade::evaluateAccumulated(ScaledMatmulOp op, Evaluation &e) {
  Tensor &y = e.result();
  AlignedOperand lhs = splitElements(e[op.getLhs()]),
                 rhs = splitElements(e[op.getRhs()]);
  const Tensor &lhsScale = e[op.getLhsScale()], &rhsScale = e[op.getRhsScale()];
  int64_t rank = y.getRank(), m = y.getDimSize(rank - 2),
          n = y.getDimSize(rank - 1), k = e[op.getLhs()].getDimSize(rank - 1);
  std::array<int64_t, 3> block = {m, n, std::max<int64_t>(k, 1)};
  bool hasBlock = op.getBlock().has_value();
  if (hasBlock)
    llvm::copy(*op.getBlock(), block.begin());
  auto getScale = [&](const Tensor &scales, int64_t row, int64_t rows,
                      int64_t index) {
    if (!hasBlock)
      return static_cast<float>(scales.getFloats().front());
    int64_t length = scales.getDimSize(1);
    return static_cast<float>(rows == 1 ? scales[index * length + row]
                                        : scales[row / rows * length + index]);
  };
  Accumulator accumulator(*op.getAccumulation());
  for (int64_t index = 0; index < y.getNumElements(); ++index) {
    int64_t row = index / n, j = index % n, i = row % m,
            column = row / m * n + j;
    float total = 0.0f;
    for (int64_t l = 0; l < k; l += block[2]) {
      float scale = getScale(lhsScale, i, block[0], l / block[2]) *
                    getScale(rhsScale, j, block[1], l / block[2]);
      total = std::fma(accumulator.add(lhs, row * k + l, rhs, column * k + l,
                                       std::min(block[2], k - l)),
                       scale, total);
    }
    if (op.getBias())
      total += static_cast<float>(e[op.getBias()][j]);
    y[index] = total;
  }
}
