//===- QuantizationNoise.cpp - Noise of quantized operands ----------------===//

#include "QuantizationNoise.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the value that `x` is a view, transpose or cast of.
static Value findSource(Value x) {
  while (Value moved = getMoved(x))
    x = moved;
  return x;
}

/// Returns the op that quantized the operand `x` of a contraction, before the
/// quantized value was saved and dequantized; null if there is none.
static QuantizeOp findQuantize(Value x) {
  auto dequantize = findSource(x).getDefiningOp<DequantizeOp>();
  if (!dequantize)
    return {};
  Value codes = dequantize.getParts().front();
  if (auto save = codes.getDefiningOp<SaveOp>())
    codes = save.getX();
  return codes.getDefiningOp<QuantizeOp>();
}

namespace {
/// Sums of squares of an operand.
struct OperandSums {
  Value elements; ///< Of the operand before it was quantized.
  Value errors;   ///< Of its rounding errors; null if it was not quantized.
};
} // namespace

static OperandSums buildSums(ValueStatistics &s, Value operand) {
  QuantizeOp quantize = findQuantize(operand);
  if (!quantize)
    return {s.sumOfSquares(s.asElements(findSource(operand))), {}};
  ImplicitLocOpBuilder &b = s.builder();
  // In the phase of the quantization: sums in the backward pass would keep the
  // unquantized operand of the forward pass in memory.
  ValueStatistics::PhaseScope scope(s, getPhase(quantize));
  auto type = cast<RankedTensorType>(quantize.getX().getType());
  Value rounded = s.asElements(
      DequantizeOp::create(b, type.clone(b.getF32Type()), quantize.getParts(),
                           quantize.getFormat()));
  Value exact = s.asElements(quantize.getX());
  return {s.sumOfSquares(exact),
          s.sumOfSquares(SubOp::create(b, exact, rounded))};
}

Value mlir::binade::buildQuantizationNoise(ValueStatistics &s) {
  Value product = findSource(s.getWatched().value);
  auto op = product.getDefiningOp<PrecisionOpInterface>();
  std::optional<int64_t> macs = op ? op.countMacs() : std::nullopt;
  if (!macs || op->getNumOperands() < 2)
    return {};
  Value left = op->getOperand(0), right = op->getOperand(1);
  if (!findQuantize(left) && !findQuantize(right))
    return {};
  ImplicitLocOpBuilder &b = s.builder();
  OperandSums l = buildSums(s, left), r = buildSums(s, right);
  Value sum;
  auto add = [&](Value x, Value y) {
    if (!x || !y)
      return;
    Value term = MulOp::create(b, x, y);
    sum = sum ? AddOp::create(b, sum, term).getResult() : term;
  };
  add(l.errors, r.elements);
  add(l.elements, r.errors);
  add(l.errors, r.errors);
  auto length = static_cast<double>(*macs) /
                cast<RankedTensorType>(product.getType()).getNumElements();
  Value norm = SqrtOp::create(b, s.divide(sum, length));
  Value factor = s.factor();
  return factor ? MulOp::create(b, norm, buildCast(b, factor, b.getF64Type()))
                : norm;
}
