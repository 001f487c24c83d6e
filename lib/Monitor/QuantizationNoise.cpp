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

/// Returns the op that quantized the operand `x` of a contraction, before it
/// was saved and dequantized; null if there is none.
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
/// Sums of squares over an operand.
struct OperandSums {
  Value elements; ///< Before the operand was quantized.
  Value errors;   ///< Null if the operand was not quantized.
};
} // namespace

static OperandSums buildSums(ValueStatistics &s, Value operand) {
  QuantizeOp quantize = findQuantize(operand);
  if (!quantize)
    return {s.sumOfSquares(s.asElements(findSource(operand))), {}};
  ImplicitLocOpBuilder &b = s.builder();
  // Not in the backward pass, which would keep the operand of the forward pass.
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
  Value variance;
  auto add = [&](Value x, Value y) {
    if (!x || !y)
      return;
    Value term = MulOp::create(b, x, y);
    variance = variance ? AddOp::create(b, variance, term).getResult() : term;
  };
  add(l.errors, r.elements);
  add(l.elements, r.errors);
  add(l.errors, r.errors);
  auto terms = static_cast<double>(*macs) /
               cast<RankedTensorType>(product.getType()).getNumElements();
  Value norm = SqrtOp::create(b, s.divide(variance, terms));
  Value factor = s.factor();
  return factor ? MulOp::create(b, norm, buildCast(b, factor, b.getF64Type()))
                : norm;
}
