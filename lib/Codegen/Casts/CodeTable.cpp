//===- CodeTable.cpp - Nearest values of code books -----------------------===//
//
// Values with equal upper bits form a cell. A table gives the number of
// thresholds below each cell, and the position of the next threshold in it.
// Cells are so narrow that in most code books they contain at most one
// threshold.
//
//===----------------------------------------------------------------------===//

#include "CodeTable.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Low bits in which the magnitudes of a cell differ: the cell is given by
/// sign, exponent and 7 bits of fraction.
static constexpr unsigned kInside = 16;
static constexpr int32_t kPlaces = 0xffff;

static int32_t bitsOf(float x) { return llvm::bit_cast<int32_t>(x); }

namespace {
/// The table of cells, and lookups in it.
class CellTable {
public:
  explicit CellTable(CodeBookAttr book) : context(book.getContext()) {
    unsigned count = book.getValues().size();
    for (unsigned code = 1; code < count; ++code)
      thresholds.push_back(book.getThreshold(code));
    isSigned = book.isSigned();
    // Below the smallest threshold and above the largest all cells are alike.
    float least = INFINITY, largest = 0.0f;
    for (float threshold : thresholds)
      if (threshold != 0.0f) {
        least = std::min(least, std::fabs(threshold));
        largest = std::max(largest, std::fabs(threshold));
      }
    first = std::max(bitsOf(least) >> kInside, 1) - 1;
    cells = (bitsOf(largest) >> kInside) + 1 - first + 1;
    for (int32_t sign = 0; sign <= (isSigned ? 1 : 0); ++sign)
      for (int32_t cell = 0; cell < cells; ++cell)
        addCell(sign, cell);
  }

  IntLanes find(FloatLanes x, LaneCodec::Lookup lookup) const {
    ImplicitLocOpBuilder &b = *x.builder;
    // Adding 0 turns -0 into 0, because a threshold of 0 treats both alike.
    IntLanes bits = (x + 0.0).bits();
    IntLanes size = isSigned ? bits & kMagnitude
                             : bits.with<arith::MaxSIOp>(bits.constant(0));
    IntLanes high = size >> kInside;
    IntLanes from = high.with<arith::MaxUIOp>(high.constant(first));
    // The bound is applied last, which shows that the index needs only 32 bits.
    IntLanes cell =
        (from - first).with<arith::MinUIOp>(high.constant(cells - 1));
    IntLanes place = size;
    if (isSigned) {
      cell = cell + (bits >> 31).with<arith::MulIOp>(bits.constant(cells));
      // Negative values ascend as their magnitudes descend.
      place = bits.with<arith::XOrIOp>(bits.shiftSigned(31));
    }
    IntLanes entry(b, lookup(getTable(entries), cell.value));
    IntLanes code = (entry + (place & kPlaces)) >> kInside;
    // The list has one more entry than thresholds, for the last code.
    SmallVector<float> bounds(thresholds);
    bounds.push_back(std::numeric_limits<float>::quiet_NaN());
    DenseElementsAttr table = getTable(ArrayRef<float>(bounds));
    for (int64_t step = 1; step < steps; ++step) {
      FloatLanes bound(b, lookup(table, code.value));
      IntLanes one = code + 1;
      code = select(x.compare(arith::CmpFPredicate::OGE, bound), one, code);
    }
    return code.resize(8);
  }

private:
  /// The upper half of an entry is the number of thresholds up to the cell's
  /// smallest value. The lower half is what the position of the first threshold
  /// in the cell lacks to a carry, so that adding a value's own position counts
  /// this threshold.
  void addCell(int32_t sign, int32_t cell) {
    int32_t low = (first + cell) << kInside;
    int32_t high = low + kPlaces;
    float least = llvm::bit_cast<float>(cell == 0 ? 0 : low);
    float most = cell == cells - 1 ? INFINITY : llvm::bit_cast<float>(high);
    if (sign)
      std::tie(least, most) = std::pair(-most, -least);
    auto count = [&](float x) {
      return llvm::upper_bound(thresholds, x) - thresholds.begin();
    };
    int64_t reached = count(least), inside = count(most) - reached;
    int32_t rest = 0;
    if (inside > 0 && thresholds[reached] != 0.0f) {
      int32_t place = bitsOf(thresholds[reached]);
      rest = 1 + kPlaces - ((sign ? ~place : place) & kPlaces);
    }
    entries.push_back(static_cast<int32_t>(reached) << kInside | rest);
    steps = std::max(steps, inside);
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
  SmallVector<float> thresholds; ///< Of all codes but 0, ascending.
  SmallVector<int32_t> entries;
  bool isSigned = false;
  int32_t first = 0, cells = 0;
  int64_t steps = 0; ///< Maximum thresholds in a cell.
};
} // namespace

/// Compares with all thresholds, for code books with few of them.
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

/// Looks up a value of each code, in a table whose size is a power of two.
static FloatLanes lookUpNumber(IntLanes code, ArrayRef<float> numbers,
                               LaneCodec::Lookup lookup) {
  ImplicitLocOpBuilder &b = *code.builder;
  auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())},
                                    b.getF32Type());
  IntLanes index = code.resize(32) & (numbers.size() - 1);
  return {b, lookup(DenseElementsAttr::get(type, numbers), index.value)};
}

/// Finds each bit of the code by one comparison, the highest bit first.
static IntLanes searchThresholds(FloatLanes x, CodeBookAttr book,
                                 LaneCodec::Lookup lookup) {
  uint64_t count = llvm::PowerOf2Ceil(book.getValues().size());
  // No number reaches a threshold of NaN.
  SmallVector<float> thresholds(count, std::numeric_limits<float>::quiet_NaN());
  for (unsigned code = 1; code < book.getValues().size(); ++code)
    thresholds[code] = book.getThreshold(code);
  IntLanes code = x.bits().constant(0);
  for (uint64_t bit = count / 2; bit > 0; bit /= 2) {
    IntLanes higher = code + bit;
    FloatLanes threshold = lookUpNumber(higher, thresholds, lookup);
    code =
        select(x.compare(arith::CmpFPredicate::OGE, threshold), higher, code);
  }
  return code.resize(8);
}

IntLanes mlir::binade::findCode(FloatLanes x, CodeBookAttr book,
                                LaneCodec::Lookup lookup) {
  if (book.getValues().size() > 16)
    return CellTable(book).find(x, lookup);
  return lookup.hasRegisters ? searchThresholds(x, book, lookup)
                             : countThresholds(x, book);
}

FloatLanes mlir::binade::findValue(IntLanes code, CodeBookAttr book,
                                   LaneCodec::Lookup lookup) {
  return lookUpNumber(code, book.getValues(), lookup);
}

FloatLanes mlir::binade::findLogarithm(IntLanes code, QuantizedAttr format,
                                       LaneCodec::Lookup lookup) {
  SmallVector<float> numbers;
  if (CodeBookAttr book = format.getBook()) {
    llvm::append_range(numbers, book.getValues().asArrayRef());
  } else {
    // The sign, the highest bit, does not matter.
    FloatType type = format.getFormat();
    for (unsigned bits = 0; bits < 1u << (type.getWidth() - 1); ++bits)
      numbers.push_back(
          APFloat(type.getFloatSemantics(), APInt(type.getWidth(), bits))
              .convertToFloat());
  }
  for (float &number : numbers)
    number = static_cast<float>(std::log2(std::fabs(double(number))));
  return lookUpNumber(code, numbers, lookup);
}

FloatLanes mlir::binade::findSign(IntLanes code, QuantizedAttr format) {
  IntLanes wide = code.resize(32);
  CodeBookAttr book = format.getBook();
  if (!book)
    return floatFromBits(wide << (32 - format.getFormat().getWidth()));
  // The values of a code book ascend.
  auto negative = llvm::count_if(book.getValues().asArrayRef(),
                                 [](float value) { return value < 0.0f; });
  return toFloat(wide - negative) + 0.5;
}
