//===- Cast.cpp - changes of format, and values kept for backward ---------===//

#include "Families.h"
#include "binade/Reference/FloatFormat.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::binade;

/// An integer as a double that rounds to every narrower format as the integer
/// itself does: bits that do not fit leave their trace in the last one
/// (rounding to odd). `isWide` asks for the nearest double instead.
static double toDouble(int64_t value, bool isWide) {
  auto nearest = static_cast<double>(value);
  if (isWide || std::fabs(nearest) < 0x1p53)
    return nearest;
  uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : value;
  unsigned dropped = 11 - llvm::countl_zero(magnitude);
  uint64_t kept = magnitude >> dropped;
  if (magnitude != kept << dropped)
    kept |= 1;
  return std::copysign(std::ldexp(static_cast<double>(kept), dropped), nearest);
}

/// Truncates; what lies outside of the type becomes its nearest number, NaN
/// becomes 0. Every number but 0 is true.
static int64_t toInteger(double value, IntegerType type) {
  if (type.getWidth() == 1)
    return value != 0.0;
  if (std::isnan(value))
    return 0;
  double limit = std::ldexp(1.0, type.getWidth() - 1);
  if (value >= limit)
    return static_cast<int64_t>(~uint64_t(0) >> (65 - type.getWidth()));
  if (value <= -limit)
    return -static_cast<int64_t>(~uint64_t(0) >> (65 - type.getWidth())) - 1;
  return static_cast<int64_t>(value);
}

static void evaluateCast(CastOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  int64_t count = y.getNumElements();
  auto to = y.getType().getElementType();
  if (auto type = dyn_cast<FloatType>(to)) {
    FloatFormat format(type.getFloatSemantics());
    for (int64_t i = 0; i < count; ++i) {
      double value =
          x.isFloat() ? x[i] : toDouble(x.getIntegers()[i], type.isF64());
      y[i] = format.round(value, op.getSaturate());
    }
    return;
  }
  auto type = cast<IntegerType>(to);
  for (int64_t i = 0; i < count; ++i) {
    int64_t &value = y.getIntegers()[i];
    if (x.isFloat())
      value = toInteger(x[i], type);
    else
      value =
          type.getWidth() == 1 ? x.getIntegers()[i] != 0 : x.getIntegers()[i];
  }
}

static void evaluateRoundTo(RoundToOp op, Evaluation &e) {
  FloatFormat format(op.getFloatFormat().getFloatSemantics());
  for (auto [x, y] :
       llvm::zip(e[op.getX()].getFloats(), e.result().getFloats()))
    y = format.round(x);
}

/// The operand, in the storage format of the result.
static void evaluateSave(SaveOp op, Evaluation &e) {
  if (op.getX().getType() == op.getY().getType())
    return e.setResult(0, e.getOperands().front());
  llvm::copy(e[op.getX()].getFloats(), e.result().getFloats().begin());
}

void mlir::binade::addCast(Reference &reference) {
  reference.add<CastOp>(evaluateCast);
  reference.add<RoundToOp>(evaluateRoundTo);
  reference.add<SaveOp>(evaluateSave);
}
