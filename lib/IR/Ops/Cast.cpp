//===- Cast.cpp - Casts, bitcasts and saved values ------------------------===//

#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Cast.cpp.inc"

Schedule CastOp::getSchedule() { return Schedule::Elementwise; }

/// Reading the narrow value moves fewer bytes than reading the wide one.
bool CastOp::isRecomputed() {
  return getElementTypeOrSelf(getX().getType()).getIntOrFloatBitWidth() <
         getElementTypeOrSelf(getY().getType()).getIntOrFloatBitWidth();
}

/// Keeps out-of-range values out of range: a narrower type might bring them
/// into range, and so might a change of signedness.
bool CastOp::keepsIntegers() {
  auto from = dyn_cast<IntegerType>(getElementTypeOrSelf(getX().getType())),
       to = dyn_cast<IntegerType>(getElementTypeOrSelf(getY().getType()));
  return from && to && to.getWidth() >= 32 && !to.isUnsigned() &&
         (!from.isUnsigned() || from.getWidth() < to.getWidth());
}

SmallVector<Value> CastOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                        ArrayRef<Value> cotangents) {
  Type element = getElementTypeOrSelf(getX().getType());
  if (!isa<FloatType>(element) ||
      !isa<FloatType>(getElementTypeOrSelf(getY().getType())))
    return {Value()};
  return {buildCast(b, cotangents.front(), element)};
}

/// Rounds `x` to f32 to odd, so that rounding further gives the same as
/// rounding `x` directly: an inexact result has an odd last bit.
static Value truncateToOdd(ImplicitLocOpBuilder &b, Value x, Type type) {
  using arith::CmpFPredicate;
  Type bitsType = b.getI32Type();
  if (auto vector = dyn_cast<VectorType>(type))
    bitsType = vector.clone(bitsType);
  Value nearest = arith::TruncFOp::create(b, type, x);
  Value back = arith::ExtFOp::create(b, x.getType(), nearest);
  Value bits = arith::BitcastOp::create(b, bitsType, nearest);
  Value one =
      arith::ConstantOp::create(b, cast<TypedAttr>(b.getOneAttr(bitsType)));
  Value isFarther = arith::CmpFOp::create(b, CmpFPredicate::OGT,
                                          math::AbsFOp::create(b, back),
                                          math::AbsFOp::create(b, x));
  Value below = arith::SubIOp::create(b, bits, one);
  Value odd = arith::OrIOp::create(
      b, arith::SelectOp::create(b, isFarther, below, bits), one);
  Value isInexact = arith::CmpFOp::create(b, CmpFPredicate::ONE, back, x);
  return arith::BitcastOp::create(
      b, type, arith::SelectOp::create(b, isInexact, odd, bits));
}

/// Returns the type of `x`, scalar or vector, with another element type.
static Type withElement(Value x, Type element) {
  auto vector = dyn_cast<VectorType>(x.getType());
  return vector ? vector.clone(element) : element;
}

/// Converts an integer to the width of `element`, of 8 bits or more, modulo
/// 2^width.
static Value resize(ImplicitLocOpBuilder &b, Value x, IntegerType element,
                    bool isUnsigned) {
  unsigned from = getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
  Type type = withElement(x, element);
  if (from == element.getWidth())
    return x;
  if (from > element.getWidth())
    return arith::TruncIOp::create(b, type, x);
  return isUnsigned ? arith::ExtUIOp::create(b, type, x).getResult()
                    : arith::ExtSIOp::create(b, type, x).getResult();
}

/// Reduces an 8-bit integer modulo 2^width of `element`, which has fewer bits,
/// and extends the sign.
static Value wrap(ImplicitLocOpBuilder &b, Value x, IntegerType element) {
  unsigned width = element.getWidth();
  if (element.isUnsigned())
    return arith::AndIOp::create(b, x, splat(b, x, (1 << width) - 1));
  Value distance = splat(b, x, 8 - width);
  return arith::ShRSIOp::create(b, arith::ShLIOp::create(b, x, distance),
                                distance);
}

/// Casts to an integer type. Integers in registers are signless, and have 8
/// bits or more, or are i1.
static Value buildInteger(ImplicitLocOpBuilder &b, Value x, IntegerType element,
                          bool isFromUnsigned) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  unsigned width = element.getWidth();
  if (width == 1 && isFloat)
    return arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, x,
                                 splat(b, x, 0.0));
  if (width == 1)
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, x,
                                 splat(b, x, 0.0));
  auto word = IntegerType::get(b.getContext(), std::max(width, 8u));
  Type type = withElement(x, word);
  Value y = !isFloat ? resize(b, x, word, isFromUnsigned)
            : element.isUnsigned() && width >= 8
                ? arith::FPToUIOp::create(b, type, x).getResult()
                : arith::FPToSIOp::create(b, type, x).getResult();
  return width < 8 ? wrap(b, y, element) : y;
}

/// Casts between f32, f64 and integers. The caller widens and rounds narrow
/// floats.
Value CastOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange operands) {
  Value x = operands.front();
  Type from = getElementTypeOrSelf(x.getType());
  Type to = getElementTypeOrSelf(getY().getType());
  bool isFromUnsigned = isUnsigned(getX().getType());
  if (auto integer = dyn_cast<IntegerType>(to))
    return buildInteger(b, x, integer, isFromUnsigned);
  if (!to.isF64())
    to = b.getF32Type();
  if (from == to)
    return x;
  Type type = withElement(x, to);
  if (isa<IntegerType>(from))
    return isFromUnsigned ? arith::UIToFPOp::create(b, type, x).getResult()
                          : arith::SIToFPOp::create(b, type, x).getResult();
  if (from.isF64() && !getElementTypeOrSelf(getY().getType()).isF32())
    return truncateToOdd(b, x, type);
  return to.isF64() ? arith::ExtFOp::create(b, type, x).getResult()
                    : arith::TruncFOp::create(b, type, x).getResult();
}

LogicalResult CastOp::verify() {
  if (getSaturate() && !isa<FloatType>(getElementTypeOrSelf(getType()))) // C1
    return emitOpError("saturates to a largest finite float, got result ")
           << getType();
  return success();
}

/// Removes only a cast that changes no value of its type.
OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getX().getType() != getY().getType())
    return {};
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(getType()));
  bool isBounded =
      getSaturate() && APFloat::semanticsHasInf(type.getFloatSemantics());
  return isBounded ? Value() : getX();
}

//===----------------------------------------------------------------------===//
// BitcastOp
//===----------------------------------------------------------------------===//

Schedule BitcastOp::getSchedule() { return Schedule::Elementwise; }

Value BitcastOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange operands) {
  Value x = operands.front();
  Type to = getElementTypeOrSelf(getY().getType());
  if (isa<IntegerType>(to)) // Integers in registers are signless.
    to = b.getIntegerType(to.getIntOrFloatBitWidth());
  Type type = withElement(x, to);
  return type == x.getType() ? x : arith::BitcastOp::create(b, type, x);
}

LogicalResult BitcastOp::verify() {
  Type from = getElementTypeOrSelf(getX().getType());
  Type to = getElementTypeOrSelf(getY().getType());
  if (from.getIntOrFloatBitWidth() == to.getIntOrFloatBitWidth()) // C1
    return success();
  return emitOpError("needs elements of equally many bits, got ")
         << from << " and " << to;
}

OpFoldResult BitcastOp::fold(FoldAdaptor) {
  return getX().getType() == getY().getType() ? getX() : Value();
}

//===----------------------------------------------------------------------===//
// RoundToOp
//===----------------------------------------------------------------------===//

Schedule RoundToOp::getSchedule() { return Schedule::Elementwise; }

/// Adds half of the last kept bit, or a little less if that bit is even, and
/// clears the dropped bits. A carry propagates into the exponent. NaN stays
/// NaN.
Value RoundToOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange operands) {
  Value x = operands.front();
  unsigned dropped = b.getF32Type().getFPMantissaWidth() -
                     getFloatFormat().getFPMantissaWidth();
  Type type = b.getI32Type();
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    type = vector.clone(type);
  Value bits = arith::BitcastOp::create(b, type, x);
  auto number = [&](int64_t value) {
    return splat(b, bits, static_cast<double>(value));
  };
  Value last = arith::AndIOp::create(
      b, arith::ShRUIOp::create(b, bits, number(dropped)), number(1));
  Value half =
      arith::AddIOp::create(b, last, number((int64_t(1) << (dropped - 1)) - 1));
  constexpr int64_t kQuiet = int64_t(1) << 22;
  Value isNaN = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
  Value kept = arith::SelectOp::create(
      b, isNaN, arith::OrIOp::create(b, bits, number(kQuiet)),
      arith::AddIOp::create(b, bits, half));
  kept = arith::AndIOp::create(b, kept, number(-(int64_t(1) << dropped)));
  return arith::BitcastOp::create(b, x.getType(), kept);
}

LogicalResult RoundToOp::verify() {
  const llvm::fltSemantics &to = getFloatFormat().getFloatSemantics();
  const llvm::fltSemantics &from = APFloat::IEEEsingle();
  if (APFloat::semanticsMinExponent(to) !=
          APFloat::semanticsMinExponent(from) ||
      APFloat::semanticsMaxExponent(to) !=
          APFloat::semanticsMaxExponent(from) ||
      APFloat::semanticsPrecision(to) >=
          APFloat::semanticsPrecision(from)) // C1
    return emitOpError("rounds to formats with the exponents of f32 and fewer "
                       "bits of mantissa, got ")
           << getFormat();
  return success();
}

/// Removes rounding of a value that is already rounded to as few bits.
OpFoldResult RoundToOp::fold(FoldAdaptor) {
  auto before = getX().getDefiningOp<RoundToOp>();
  return before && before.getFloatFormat().getFPMantissaWidth() <=
                       getFloatFormat().getFPMantissaWidth()
             ? getX()
             : Value();
}

//===----------------------------------------------------------------------===//
// SaveOp
//===----------------------------------------------------------------------===//

/// A `save` that changes the format is not a view.
Schedule SaveOp::getSchedule() {
  return getX().getType() == getY().getType() ? Schedule::View
                                              : Schedule::Library;
}

/// The cast can be fused into the kernel of the producer.
FailureOr<SmallVector<Value>> SaveOp::decompose(ImplicitLocOpBuilder &b) {
  if (getX().getType() == getY().getType())
    return failure();
  Value rounded = CastOp::create(b, getY().getType(), getX());
  return SmallVector<Value>{SaveOp::create(b, rounded)};
}
