//===- QuantizedOperands.cpp - Formats of quantized contractions ----------===//

#include "binade/IR/QuantizedOperands.h"
#include "binade/IR/HadamardOp.h"
#include "binade/IR/Movement.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the bits of the significand, including the leading one.
static unsigned countBits(FloatType format) {
  return APFloat::semanticsPrecision(format.getFloatSemantics());
}

bool mlir::binade::canRepresentDequantized(QuantizedAttr format) {
  FloatType element = format.getFormat();
  if (!element || element.getWidth() > 8 || format.getExpand())
    return false;
  // The product of two significands has at most as many bits as both.
  if (format.roundsScales())
    return countBits(element) + countBits(format.getScale()) <=
           countBits(BFloat16Type::get(format.getContext()));
  return format.getRule() == ScaleRule::InversePower ||
         format.getRule() == ScaleRule::Floor ||
         format.getRule() == ScaleRule::RoundUp;
}

bool mlir::binade::canRepresentQuantized(QuantizedAttr format) {
  return format.getGranularity() == Granularity::PerTensor &&
         format.getFormat() && !format.getExpand() &&
         format.getFormat().getWidth() <= 8;
}

QuantizedAttr mlir::binade::orientScales(OpOperand &operand,
                                         QuantizedAttr format) {
  auto op = cast<PrecisionOpInterface>(operand.getOwner());
  if (op.getSummedAxis(operand.getOperandNumber()) != -2)
    return format;
  auto type = cast<RankedTensorType>(operand.get().getType());
  return format.getTransposed(type.getDimSize(type.getRank() - 2));
}

std::string mlir::binade::explainUntransformable(PrecisionOpInterface op,
                                                 int64_t size) {
  constexpr unsigned kFactors = 2;
  for (unsigned index = 0; index < kFactors; ++index) {
    std::optional<int64_t> axis =
        op.accumulates() ? op.getSummedAxis(index) : std::nullopt;
    if (!axis)
      return "does not sum over a single axis, as a transform needs";
    RankedTensorType type = getTensor(op->getOperand(index));
    int64_t length = type.getDimSize(type.getRank() + *axis);
    if (length % size == 0)
      continue;
    SmallVector<std::string> sizes;
    for (int64_t other : kHadamardSizes)
      if (length % other == 0)
        sizes.push_back(std::to_string(other));
    return "sums over " + std::to_string(length) + " elements (axis " +
           std::to_string(*axis) + " of " + llvm::to_string(type) +
           "), which is not a multiple of " + std::to_string(size) + "; " +
           (sizes.empty() ? "no size of a transform divides it"
                          : "sizes that divide it: " + llvm::join(sizes, ", "));
  }
  return {};
}

FloatType mlir::binade::getComputed(PrecisionAttr decision) {
  FloatType compute = decision.getCompute();
  if (!decision.getOperands() || !decision.getAccumulate())
    return compute;
  unsigned quantized = 0, held = 0;
  for (Attribute operand : decision.getOperands())
    if (auto format = dyn_cast<QuantizedAttr>(operand)) {
      ++quantized;
      held += canRepresentDequantized(format) || canRepresentQuantized(format);
    }
  // Both operands, or neither.
  return quantized == 0 || held == 2 ? compute
                                     : Float32Type::get(decision.getContext());
}

PrecisionAttr mlir::binade::getMultiplied(PrecisionAttr decision) {
  bool isTf32 = decision && isa<FloatTF32Type>(decision.getCompute());
  return isTf32 ? decision : PrecisionAttr();
}

std::string mlir::binade::describeElement(QuantizedAttr format) {
  if (CodeBookAttr book = format.getBook())
    return book.getName().str();
  if (CompandedAttr companded = format.getCompanded())
    return stringifyCompanding(companded.getFunction()).str();
  return llvm::to_string(format.getFormat());
}

std::string mlir::binade::describeQuantizedOperands(PrecisionAttr decision) {
  if (!decision || !decision.getOperands() || !decision.getAccumulate())
    return {};
  SmallVector<std::string> factors;
  for (Attribute operand : decision.getOperands()) {
    auto format = dyn_cast<QuantizedAttr>(operand);
    if (!format)
      continue;
    factors.push_back(describeElement(format));
  }
  constexpr size_t kFactors = 2;
  return factors.size() < kFactors ? std::string() : llvm::join(factors, " x ");
}

Value mlir::binade::swapLastAxes(ImplicitLocOpBuilder &b, Value value) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(order[rank - 2], order[rank - 1]);
  return TransposeOp::create(b, value, order);
}
