//===- Exchange.cpp - Sums over the ranks of a group ----------------------===//
//
// A group of one: results are the operands, rounded by the format. Fixed-point
// sums are computed from the values in f64, which represents every f32 times a
// power of two.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include "binade/Container/ExchangeLayout.h"
#include "binade/IR/ExchangeOps.h"
#include "binade/Reference/FloatFormat.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExchangeLayout;

static constexpr int kLowest = -149, kDigitBits = ExchangeLayout::kDigitBits;
static constexpr int64_t kNotFinite = 17;

namespace {
/// A fixed-point sum of the tensors of a bucket.
class FixedPointSum {
public:
  FixedPointSum(ArrayRef<const Tensor *> tensors, ArrayRef<int64_t> stored)
      : tensors(tensors), layout(getElements(tensors)),
        digits(stored.begin(), stored.end() - layout.countBlocks()),
        numbers(stored.end() - layout.countBlocks(), stored.end()) {
    addTensors();
  }

  std::vector<int64_t> store() const {
    std::vector<int64_t> all = digits;
    all.insert(all.end(), numbers.begin(), numbers.end());
    return all;
  }

  /// Returns the sum at a position, rounded to f32.
  double round(int64_t position) const;
  int64_t getPosition(size_t tensor) const { return layout.positions[tensor]; }

private:
  static std::vector<int64_t> getElements(ArrayRef<const Tensor *> tensors) {
    std::vector<int64_t> elements;
    for (const Tensor *tensor : tensors)
      elements.push_back(tensor->getNumElements());
    return elements;
  }

  void addTensors();
  void raise(int64_t block, int64_t number);
  void add(int64_t position, double value);
  int64_t &digit(int64_t which, int64_t position) {
    return digits[which * layout.size + position];
  }
  int64_t digit(int64_t which, int64_t position) const {
    return digits[which * layout.size + position];
  }

  ArrayRef<const Tensor *> tensors;
  ExchangeLayout layout;
  std::vector<int64_t> digits, numbers;
};
} // namespace

static int64_t getNumber(double value) {
  if (!std::isfinite(value))
    return kNotFinite;
  if (value == 0.0)
    return 0;
  int highest = std::ilogb(value) - kLowest;
  return std::max(highest / kDigitBits - 1, 1);
}

void FixedPointSum::addTensors() {
  for (auto [tensor, first] : llvm::zip(tensors, layout.positions))
    for (int64_t i = 0; i < tensor->getNumElements(); ++i) {
      int64_t block = (first + i) / ExchangeLayout::kBlock;
      raise(block, getNumber(tensor->getFloats()[i]));
    }
  for (auto [tensor, first] : llvm::zip(tensors, layout.positions))
    for (int64_t i = 0; i < tensor->getNumElements(); ++i)
      add(first + i, tensor->getFloats()[i]);
}

void FixedPointSum::raise(int64_t block, int64_t number) {
  if (number <= numbers[block])
    return;
  int64_t by = number == kNotFinite || numbers[block] == 0
                   ? ExchangeLayout::kDigits
                   : number - numbers[block];
  numbers[block] = number;
  int64_t first = block * ExchangeLayout::kBlock,
          last = std::min(first + ExchangeLayout::kBlock, layout.size);
  for (int64_t position = first; position < last; ++position)
    for (int64_t which = ExchangeLayout::kDigits; which-- > 0;)
      digit(which, position) = which >= by ? digit(which - by, position) : 0;
}

void FixedPointSum::add(int64_t position, double value) {
  int64_t number = numbers[position / ExchangeLayout::kBlock];
  if (number == kNotFinite) {
    digit(0, position) += std::isnan(value);
    digit(1, position) += std::isinf(value) && value > 0;
    digit(2, position) += std::isinf(value) && value < 0;
    return;
  }
  for (int64_t which = 0; which < ExchangeLayout::kDigits; ++which) {
    int place = kLowest + kDigitBits * static_cast<int>(number + 1 - which);
    double above = std::floor(std::ldexp(std::fabs(value), -place));
    auto own =
        static_cast<int64_t>(std::fmod(above, std::ldexp(1.0, kDigitBits)));
    digit(which, position) += value < 0 ? -own : own;
  }
}

double FixedPointSum::round(int64_t position) const {
  int64_t number = numbers[position / ExchangeLayout::kBlock];
  int64_t high = digit(0, position), middle = digit(1, position),
          low = digit(2, position);
  if (number == kNotFinite) {
    bool isNaN = high > 0 || (middle > 0) == (low > 0);
    return isNaN ? NAN : middle > 0 ? INFINITY : -INFINITY;
  }
  int64_t total = (high << (2 * kDigitBits)) + (middle << kDigitBits) + low;
  APFloat rounded(APFloat::IEEEsingle());
  rounded.convertFromAPInt(APInt(64, total, /*isSigned=*/true),
                           /*IsSigned=*/true, APFloat::rmNearestTiesToEven);
  return std::ldexp(rounded.convertToFloat(),
                    kLowest +
                        kDigitBits *
                            static_cast<int>(std::max<int64_t>(number, 1) - 1));
}

static SmallVector<const Tensor *> getTensors(ValueRange values,
                                              Evaluation &e) {
  return llvm::map_to_vector(
      values, [&](Value value) -> const Tensor * { return &e[value]; });
}

static void evaluateExact(ExchangeOp op, Evaluation &e) {
  unsigned result = 0;
  for (unsigned bucket = 0; bucket < op.getNumBuckets(); ++bucket) {
    SmallVector<const Tensor *> tensors = getTensors(op.getBucket(bucket), e);
    FixedPointSum sum(tensors, e[op.getSums()[bucket]].getIntegers());
    for (size_t i = 0; i < tensors.size(); ++i, ++result)
      for (int64_t n = 0; n < tensors[i]->getNumElements(); ++n)
        e.result(result)[n] = sum.round(sum.getPosition(i) + n);
  }
}

/// Rounds each block of positions to E4M3 with a scale.
static void evaluateE4M3(ExchangeOp op, Evaluation &e) {
  FloatFormat f32(APFloat::IEEEsingle()), narrow(APFloat::Float8E4M3FN());
  unsigned result = 0;
  for (unsigned bucket = 0; bucket < op.getNumBuckets(); ++bucket) {
    SmallVector<const Tensor *> tensors = getTensors(op.getBucket(bucket), e);
    std::vector<int64_t> elements;
    for (const Tensor *tensor : tensors)
      elements.push_back(tensor->getNumElements());
    ExchangeLayout layout(elements);
    std::vector<double> values(layout.countBlocks() * ExchangeLayout::kBlock);
    for (size_t i = 0; i < tensors.size(); ++i)
      llvm::copy(tensors[i]->getFloats(), values.begin() + layout.positions[i]);
    for (int64_t first = 0; first < layout.size;
         first += ExchangeLayout::kBlock) {
      MutableArrayRef<double> block(values.data() + first,
                                    ExchangeLayout::kBlock);
      double largest = 0.0;
      for (double x : block)
        largest =
            largest < std::fabs(x) || std::isnan(x) ? std::fabs(x) : largest;
      double scale = largest == 0.0 ? 0.0
                     : std::isfinite(largest)
                         ? std::max(f32.round(largest / 448.0), 0x1p-149)
                         : NAN;
      for (double &x : block) {
        double code =
            narrow.round(std::clamp(f32.round(x / scale), -448.0, 448.0));
        x = scale == 0.0 ? 0.0 : f32.round(code * scale);
      }
    }
    for (size_t i = 0; i < tensors.size(); ++i, ++result)
      std::copy_n(values.begin() + layout.positions[i], elements[i],
                  e.result(result).getFloats().begin());
  }
}

static void evaluateExchange(ExchangeOp op, Evaluation &e) {
  unsigned gradients = op.getGradients().size();
  FloatFormat bf16(APFloat::BFloat());
  for (auto [index, operand] :
       llvm::enumerate(e.getOperands().take_front(op->getNumResults()))) {
    if (index >= gradients || op.getFormat() == ExchangeFormat::F32)
      e.setResult(index, operand);
    else if (op.getFormat() == ExchangeFormat::BF16)
      for (auto [to, from] :
           llvm::zip(e.result(index).getFloats(), operand->getFloats()))
        to = bf16.round(from);
  }
  if (op.getFormat() == ExchangeFormat::Exact)
    evaluateExact(op, e);
  if (op.getFormat() == ExchangeFormat::E4M3)
    evaluateE4M3(op, e);
}

static void evaluateExchangeAdd(ExchangeAddOp op, Evaluation &e) {
  SmallVector<const Tensor *> tensors = getTensors(op.getGradients(), e);
  FixedPointSum sum(tensors, e[op.getSum()].getIntegers());
  llvm::copy(sum.store(), e.result().getIntegers().begin());
}

void mlir::binade::addExchange(Reference &reference) {
  reference.add<ExchangeOp>(evaluateExchange);
  reference.add<ExchangeAddOp>(evaluateExchangeAdd);
}
