//===- CodeTable.cpp - the nearest value of a code book -------------------===//
// Numbers whose upper bits are equal form a cell. A table says how many
// thresholds lie below a cell; those inside are compared with. Cells are so
// narrow that most books have one threshold in a cell.
//===----------------------------------------------------------------------===//

#include "CodeTable.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Bits of a cell's magnitudes that differ: the cell keeps sign, exponent and 7
/// bits of fraction.
static constexpr unsigned kInside = 16;
static constexpr int32_t kMagnitude = 0x7fffffff;

static int32_t bitsOf(float x) { return llvm::bit_cast<int32_t>(x); }

namespace {
/// The cells of one sign, and what a lookup in them needs.
class CellTable {
public:
  explicit CellTable(CodeBookAttr book) : context(book.getContext()) {
    unsigned count = book.getValues().size();
    for (unsigned code = 1; code < count; ++code)
      thresholds.push_back(book.getThreshold(code));
    isSigned = book.isSigned();
    // Below the least threshold and above the largest all cells are alike.
    float least = INFINITY, largest = 0.0f;
    for (float threshold : thresholds)
      if (threshold != 0.0f) {
        least = std::min(least, std::fabs(threshold));
        largest = std::max(largest, std::fabs(threshold));
      }
    first = (bitsOf(least) >> kInside) - 1;
    cells = (bitsOf(largest) >> kInside) + 1 - first + 1;
    for (int32_t sign = 0; sign <= (isSigned ? 1 : 0); ++sign)
      for (int32_t cell = 0; cell < cells; ++cell)
        addCell(sign, cell);
  }

  IntLanes find(FloatLanes x, LaneCodec::Lookup lookup) const {
    ImplicitLocOpBuilder &b = *x.builder;
    IntLanes bits = x.bits();
    IntLanes high = (bits & kMagnitude) >> kInside;
    auto clamp = [&](auto op, int64_t bound) {
      high = IntLanes(
          b, decltype(op)::create(b, high.value, high.constant(bound).value));
    };
    clamp(arith::MaxUIOp(), first);
    clamp(arith::MinUIOp(), first + cells - 1);
    IntLanes cell = high - first;
    if (isSigned)
      cell =
          cell + IntLanes(b, arith::MulIOp::create(b, (bits >> 31).value,
                                                   bits.constant(cells).value));
    IntLanes code(b, lookup(getTable(below), cell.value));
    // One more than the thresholds, so that code + 1 always has a bound.
    SmallVector<float> bounds(thresholds);
    bounds.push_back(INFINITY);
    DenseElementsAttr table = getTable(ArrayRef<float>(bounds));
    for (int64_t step = 0; step < steps; ++step) {
      FloatLanes bound(b, lookup(table, code.value));
      IntLanes one = code + 1;
      code = select(x.compare(arith::CmpFPredicate::OGE, bound), one, code);
    }
    return code.resize(8);
  }

private:
  /// Counts the thresholds below the cell's least number, and those inside.
  void addCell(int32_t sign, int32_t cell) {
    int32_t low = (first + cell) << kInside;
    int32_t high = low + (1 << kInside) - 1;
    float least = llvm::bit_cast<float>(cell == 0 ? 0 : low);
    float most = cell == cells - 1 ? INFINITY : llvm::bit_cast<float>(high);
    if (sign)
      std::tie(least, most) = std::pair(-most, -least);
    auto count = [&](float x) {
      return llvm::upper_bound(thresholds, x) - thresholds.begin();
    };
    int64_t reached = count(least);
    below.push_back(static_cast<int32_t>(reached));
    steps = std::max(steps, count(most) - reached);
  }

  DenseElementsAttr getTable(ArrayRef<int32_t> numbers) const {
    auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())},
                                      IntegerType::get(context, 32));
    return DenseElementsAttr::get(type, numbers);
  }
  DenseElementsAttr getTable(ArrayRef<float> numbers) const {
    auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())},
                                      Float32Type::get(context));
    return DenseElementsAttr::get(type, numbers);
  }

  MLIRContext *context;
  SmallVector<float> thresholds; ///< Of the codes above 0, ascending.
  SmallVector<int32_t> below;
  bool isSigned = false;
  int32_t first = 0, cells = 0;
  int64_t steps = 0; ///< Most thresholds inside of one cell.
};
} // namespace

/// Few thresholds are compared with at once.
static IntLanes countThresholds(FloatLanes x, CodeBookAttr book) {
  IntLanes code = x.bits().constant(0);
  for (unsigned i = 1, count = book.getValues().size(); i < count; ++i) {
    BoolLanes reaches =
        x.compare(arith::CmpFPredicate::OGE, x.constant(book.getThreshold(i)));
    code =
        code + IntLanes(*x.builder,
                        arith::ExtUIOp::create(*x.builder, code.value.getType(),
                                               reaches.value));
  }
  return code.resize(8);
}

IntLanes mlir::binade::findCode(FloatLanes x, CodeBookAttr book,
                                LaneCodec::Lookup lookup) {
  if (book.getValues().size() <= 16)
    return countThresholds(x, book);
  return CellTable(book).find(x, lookup);
}

FloatLanes mlir::binade::findValue(IntLanes code, CodeBookAttr book,
                                   LaneCodec::Lookup lookup) {
  ArrayRef<float> values = book.getValues();
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())},
                                    Float32Type::get(book.getContext()));
  IntLanes index = code.resize(32) & (values.size() - 1);
  return {*code.builder,
          lookup(DenseElementsAttr::get(type, values), index.value)};
}
