//===- Cast.cpp - Casts, bitcasts and saved values ------------------------===//

#include "Families.h"
#include "binade/Reference/FloatFormat.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Converts an integer to a double that rounds to every narrower format as the
/// integer itself does: inexact results are rounded to odd. `isWide` asks for
/// the nearest double instead.
static double toDouble(int64_t value, bool isUnsigned, bool isWide) {
  bool isNegative = !isUnsigned && value < 0;
  uint64_t magnitude = isNegative ? 0 - static_cast<uint64_t>(value) : value;
  auto nearest = static_cast<double>(magnitude);
  if (isNegative)
    nearest = -nearest;
  if (isWide || std::fabs(nearest) < 0x1p53)
    return nearest;
  unsigned dropped = 11 - llvm::countl_zero(magnitude);
  uint64_t kept = magnitude >> dropped;
  if (magnitude != kept << dropped)
    kept |= 1;
  return std::copysign(std::ldexp(static_cast<double>(kept), dropped), nearest);
}

/// Truncates `value`; values out of range become the nearest value of the type,
/// NaN becomes 0. For i1, every value but 0 becomes 1.
static int64_t toInteger(double value, IntegerType type) {
  if (type.getWidth() == 1)
    return value != 0.0;
  if (std::isnan(value))
    return 0;
  unsigned digits = type.getWidth() - (type.isUnsigned() ? 0 : 1);
  double limit = std::ldexp(1.0, digits);
  uint64_t most = ~uint64_t(0) >> (64 - digits);
  if (value >= limit)
    return static_cast<int64_t>(most);
  if (type.isUnsigned())
    return value <= 0.0 ? 0
                        : static_cast<int64_t>(static_cast<uint64_t>(value));
  return value <= -limit ? -static_cast<int64_t>(most) - 1
                         : static_cast<int64_t>(value);
}

static void evaluateCast(CastOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  int64_t count = y.getNumElements();
  auto to = y.getType().getElementType();
  bool isUnsigned = x.getType().getElementType().isUnsignedInteger();
  if (auto type = dyn_cast<FloatType>(to)) {
    FloatFormat format(type.getFloatSemantics());
    for (int64_t i = 0; i < count; ++i) {
      double value =
          x.isFloat() ? x[i]
                      : toDouble(x.getIntegers()[i], isUnsigned, type.isF64());
      y[i] = format.round(value, op.getSaturate());
    }
    return;
  }
  // Integers with fewer bits wrap around, after a conversion to a byte.
  auto type = cast<IntegerType>(to);
  bool isSmall = type.getWidth() > 1 && type.getWidth() < 8;
  auto target = isSmall ? IntegerType::get(op.getContext(), 8) : type;
  for (int64_t i = 0; i < count; ++i) {
    int64_t &value = y.getIntegers()[i];
    if (x.isFloat())
      value = toInteger(x[i], target);
    else
      value =
          type.getWidth() == 1 ? x.getIntegers()[i] != 0 : x.getIntegers()[i];
  }
}

static void evaluateBitcast(BitcastOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  Type from = x.getType().getElementType(), to = y.getType().getElementType();
  auto getBits = [&](int64_t i) -> uint64_t {
    if (from.isF64())
      return llvm::bit_cast<uint64_t>(x[i]);
    if (from.isF32())
      return llvm::bit_cast<uint32_t>(static_cast<float>(x[i]));
    return x.getIntegers()[i];
  };
  for (int64_t i = 0, count = y.getNumElements(); i < count; ++i) {
    uint64_t bits = getBits(i);
    if (to.isF64())
      y[i] = llvm::bit_cast<double>(bits);
    else if (to.isF32())
      y[i] = llvm::bit_cast<float>(static_cast<uint32_t>(bits));
    else
      y.getIntegers()[i] = wrapInteger(bits, cast<IntegerType>(to));
  }
}

static void evaluateRoundTo(RoundToOp op, Evaluation &e) {
  FloatFormat format(op.getFloatFormat().getFloatSemantics());
  for (auto [x, y] :
       llvm::zip(e[op.getX()].getFloats(), e.result().getFloats()))
    y = format.round(x);
}

/// Returns the operand in the storage format of the result.
static void evaluateSave(SaveOp op, Evaluation &e) {
  if (op.getX().getType() == op.getY().getType())
    return e.setResult(0, e.getOperands().front());
  llvm::copy(e[op.getX()].getFloats(), e.result().getFloats().begin());
}

void mlir::binade::addCast(Reference &reference) {
  reference.add<CastOp>(evaluateCast);
  reference.add<BitcastOp>(evaluateBitcast);
  reference.add<RoundToOp>(evaluateRoundTo);
  reference.add<SaveOp>(evaluateSave);
}
