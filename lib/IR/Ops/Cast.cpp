//===- Cast.cpp - changes of format, and values kept for backward ---------===//

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

/// A narrower type might turn what is out of range into what is not, and so
/// might the sign of a number that had none.
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

/// `x` in f32 so that rounding it further gives what rounding `x` gives: what
/// f32 cannot hold leaves its trace in the last bit (rounding to odd).
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

/// The type of `x`, scalar or vector, with other elements.
static Type withElement(Value x, Type element) {
  auto vector = dyn_cast<VectorType>(x.getType());
  return vector ? vector.clone(element) : element;
}

/// An integer modulo the width of `element`, of 8 bits or more.
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

/// An integer in 8 bits modulo the fewer of `element`, whose sign fills the
/// others.
static Value wrap(ImplicitLocOpBuilder &b, Value x, IntegerType element) {
  unsigned width = element.getWidth();
  if (element.isUnsigned())
    return arith::AndIOp::create(b, x, splat(b, x, (1 << width) - 1));
  Value distance = splat(b, x, 8 - width);
  return arith::ShRSIOp::create(b, arith::ShLIOp::create(b, x, distance),
                                distance);
}

/// To integers. Those in registers are signless, of 8 bits or more, or i1.
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

/// Between f32, f64 and integers; the caller widens and rounds narrow floats.
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

/// Only a cast that changes no value of its type is removed here: every other
/// change of value is the IR's business.
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
  if (isa<IntegerType>(to)) // Registers have no sign of their own.
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

/// Adds half of the last kept bit, or a little less where that bit is even, and
/// clears what is dropped. A carry goes on into the exponent. NaN stays NaN.
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

/// What is rounded already is left as it is.
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

/// Bytes as they are, or parts: what changes the format is no view.
Schedule SaveOp::getSchedule() {
  return getX().getType() == getY().getType() ? Schedule::View
                                              : Schedule::Library;
}

/// The cast joins the kernel that makes the value, where a kernel does.
FailureOr<SmallVector<Value>> SaveOp::decompose(ImplicitLocOpBuilder &b) {
  if (getX().getType() == getY().getType())
    return failure();
  Value rounded = CastOp::create(b, getY().getType(), getX());
  return SmallVector<Value>{SaveOp::create(b, rounded)};
}
