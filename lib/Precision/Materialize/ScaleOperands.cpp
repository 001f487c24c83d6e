//===- ScaleOperands.cpp - Operands with constant scales ------------------===//

#include "ScaleOperands.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

static Phase getOwnPhase(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer ? getPhase(producer) : Phase::Forward;
}

/// Returns the value before it was saved.
static Value getUnsaved(Value value) {
  while (auto save = value.getDefiningOp<SaveOp>())
    value = save.getX();
  return value;
}

/// Returns 2^exponent times `x`, in f32 if the format of `x` has a smaller
/// range.
Value OperandScaler::multiply(Value x, int64_t exponent, Phase phase) {
  if (exponent == 0)
    return x;
  if (!getElementTypeOrSelf(x).isBF16())
    x = buildCast(b, x, b.getF32Type());
  if (Operation *cast = x.getDefiningOp<CastOp>())
    setPhase(cast, phase);
  Value factor =
      buildSplat(b, x.getType(), std::ldexp(1.0, static_cast<int>(exponent)));
  Value product = MulOp::create(b, x, factor);
  setPhase(product.getDefiningOp(), phase);
  return product;
}

Value OperandScaler::round(Value source, const ScaledOperand &scaled) {
  Value &result = rounded[{source, scaled.format, scaled.exponent}];
  if (result)
    return result;
  b.setLoc(source.getLoc());
  b.setInsertionPointAfterValue(source);
  Phase phase = getOwnPhase(source);
  Value x = multiply(source, scaled.exponent, phase);
  if (getElementTypeOrSelf(x) == scaled.format)
    return result = x;
  auto type = cast<RankedTensorType>(x.getType()).clone(scaled.format);
  constexpr unsigned kByte = 8;
  auto cast =
      CastOp::create(b, type, x, type.getElementTypeBitWidth() <= kByte);
  setPhase(cast, phase);
  return result = cast;
}

void OperandScaler::read(OpOperand &operand, const ScaledOperand &scaled,
                         FloatType compute) {
  Value source = getUnsaved(operand.get());
  Value narrow = round(source, scaled);
  Operation *reader = operand.getOwner();
  Phase phase = getPhase(reader);
  if (phase != getOwnPhase(source)) {
    Value &saved = saves[narrow];
    if (!saved) {
      b.setLoc(source.getLoc());
      b.setInsertionPointAfterValue(narrow);
      saved = SaveOp::create(b, narrow, PrecisionAttr());
    }
    narrow = saved;
  }
  b.setLoc(source.getLoc());
  b.setInsertionPoint(reader);
  Value read = buildRounded(b, narrow, compute);
  for (Operation *op = read.getDefiningOp();
       read != narrow && op && op != narrow.getDefiningOp();
       op = op->getOperand(0).getDefiningOp())
    setPhase(op, phase);
  operand.set(read);
}

void OperandScaler::readSummand(OpOperand &operand, int64_t exponent) {
  Operation *reader = operand.getOwner();
  b.setLoc(reader->getLoc());
  b.setInsertionPoint(reader);
  operand.set(multiply(operand.get(), exponent, getPhase(reader)));
}

void OperandScaler::unscale(OpResult result, int64_t exponent) {
  b.setLoc(result.getLoc());
  b.setInsertionPointAfterValue(result);
  Value plain = multiply(result, exponent, getPhase(result.getOwner()));
  if (plain != result)
    result.replaceAllUsesExcept(plain, plain.getDefiningOp());
}
