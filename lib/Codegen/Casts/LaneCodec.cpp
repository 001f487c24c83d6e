//===- LaneCodec.cpp - Quantization and dequantization --------------------===//

#include "CodeTable.h"
#include "Companding.h"
#include "Quotient.h"
#include "RandomRounding.h"
#include "RangeExpansion.h"
#include "SmallFloats.h"
#include "binade/IR/RangeExpansion.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static constexpr double kMinNormal = 0x1p-126;
/// The range of f16.
static constexpr double kMinHalf = 0x1p-24, kMaxHalf = 65504;
static constexpr double kLargestFloat = 0x1.fffffep127;
/// The offset that COAT adds to the largest magnitude of activations.
static constexpr double kOffset = static_cast<double>(1e-10f);

static double inFloat(double x) {
  return static_cast<double>(static_cast<float>(x));
}

/// Rounds `scale` to the format of scales.
FloatLanes LaneCodec::store(FloatLanes scale) const {
  FloatType type = format.getScale();
  if (type.isF32())
    return scale;
  ImplicitLocOpBuilder &b = *scale.builder;
  Value narrow = arith::TruncFOp::create(b, scale.typeWith(type), scale.value);
  return {b, arith::ExtFOp::create(b, scale.value.getType(), narrow)};
}

FloatLanes LaneCodec::chooseScale(FloatLanes amax) const {
  ImplicitLocOpBuilder &b = *amax.builder;
  double largest = format.getLargest();
  FloatLanes limit = amax.constant(inFloat(largest));
  double inverse = static_cast<double>(1.0f / static_cast<float>(largest));
  switch (format.getRule()) {
  case ScaleRule::Amax: {
    bool isHalf = format.getScale().isF16();
    FloatLanes scale = atLeast(amax / limit, isHalf ? kMinHalf : kMinNormal);
    if (isHalf)
      scale = select(amax == INFINITY, scale, atMost(scale, kMaxHalf));
    return select(amax == 0.0, static_cast<double>(format.getScaleOfZeros()),
                  scale);
  }
  case ScaleRule::AmaxOffset:
    if (format.getBook())
      return (amax + kOffset) / limit;
    // Each group has one, so that a division would take half as long as all
    // other instructions. The largest value of a float format has few bits.
    return divideByConstant(amax + kOffset, static_cast<float>(largest));
  case ScaleRule::Inverse:
  case ScaleRule::InversePower: {
    FloatLanes peak = amax.constant(inFloat(format.getPeak()));
    FloatLanes factor = atMost(peak / amax, kLargestFloat);
    if (format.getRule() == ScaleRule::InversePower)
      factor = floatFromBits(factor.bits() & 0xff800000);
    // The factor is 1 for 0, infinities and NaN.
    BoolLanes isUsable =
        amax.compare(arith::CmpFPredicate::OGT, amax.constant(0.0)) &
        amax.compare(arith::CmpFPredicate::OLE, amax.constant(kLargestFloat));
    return select(isUsable, factor, amax.constant(1.0));
  }
  case ScaleRule::Floor: {
    IntLanes field = amax.bits() >> 23;
    auto exponent = static_cast<uint64_t>(std::ilogb(largest));
    IntLanes least = field.constant(exponent);
    IntLanes kept(b, arith::MaxUIOp::create(b, field.value, least.value));
    BoolLanes isFinite =
        field.compare(arith::CmpIPredicate::ne, field.constant(255));
    return decodePower(select(isFinite, kept - exponent, field));
  }
  case ScaleRule::RoundUp: {
    IntLanes bits = (amax * inverse).bits();
    // Round up: add one to the exponent unless the fraction is 0. Values below
    // the normal range round up if they exceed 2^-127.
    IntLanes carry = select(
        bits.compare(arith::CmpIPredicate::ult, bits.constant(0x00800000)),
        bits + 0x003fffff, bits + 0x007fffff);
    IntLanes field(b, arith::MinUIOp::create(b, (carry >> 23).value,
                                             bits.constant(254).value));
    return decodePower(select(amax.isNaN(), bits.constant(255), field));
  }
  case ScaleRule::RoundedInverse:
  case ScaleRule::RoundedHeadroom:
  case ScaleRule::RoundedFourSix:
  case ScaleRule::RoundedEden:
    break; // `quantize` decomposes them into arithmetic.
  }
  llvm_unreachable("all rules are handled");
}

LaneCodec::Factors LaneCodec::makeFactors(ArrayRef<FloatLanes> parts) {
  Factors factors{parts[0], parts[0], {}, {}, {}};
  if (parts.size() == 2)
    factors.tensor = parts[1];
  if (parts.size() > 2) {
    factors.power = parts[1];
    factors.centre = parts[2];
  }
  return factors;
}

LaneCodec::Factors LaneCodec::choose(FloatLanes amax,
                                     std::optional<FloatLanes> least) const {
  std::optional<FloatLanes> power, centre;
  if (format.getExpand()) {
    float bound = expansion::getBound(format);
    FloatLanes top = amax.constant(static_cast<double>(std::log2(bound)));
    // A wide ratio may overflow f32, so that a power of two is divided out.
    BoolLanes isWide = amax * 0x1p-100 > *least;
    FloatLanes ratio = select(isWide, amax * 0x1p-64, amax) /
                       select(isWide, *least * 0x1p100, *least);
    FloatLanes distance =
        findLogarithm(ratio) + select(isWide, 164.0, ratio.constant(0.0));
    FloatLanes steps =
        ((top / distance) * expansion::kSteps).apply<math::FloorOp>();
    FloatLanes one = amax.constant(1.0);
    power = atLeast(steps, 1.0) * (1.0 / expansion::kSteps);
    // A wide ratio was scaled down and may be small.
    BoolLanes isConstant =
        select(isWide, 2.0, ratio)
            .compare(arith::CmpFPredicate::OLE,
                     ratio.constant(expansion::kConstantRatio));
    BoolLanes isZero = amax == 0.0;
    power = select(isConstant | isZero, one, *power);
    centre = select(isZero, one,
                    amax.apply<math::SqrtOp>() * least->apply<math::SqrtOp>());
    amax = select(isZero, amax, expandLargest(amax, *power, *centre));
  }
  FloatLanes scale = chooseScale(amax);
  FloatLanes stored =
      store(format.multiplies() ? scale.constant(1.0) / scale : scale);
  bool isStored = format.getRule() == ScaleRule::Amax && !format.getCompanded();
  return {stored, isStored ? stored : scale, power, centre, {}};
}

/// Returns the code of the next value below `x` or the next one above, at
/// random.
static IntLanes findCodeRandomly(FloatLanes x, CodeBookAttr book,
                                 LaneCodec::Lookup lookup, FloatLanes random) {
  IntLanes code = findCode(x, book, lookup);
  IntLanes first = code.constant(0),
           last = code.constant(book.getValues().size() - 1);
  BoolLanes isAbove = findValue(code, book, lookup) > x &
                      code.compare(arith::CmpIPredicate::ne, first);
  IntLanes low = select(isAbove, code - 1, code);
  IntLanes high =
      select(low.compare(arith::CmpIPredicate::eq, last), low, low + 1);
  FloatLanes below = findValue(low, book, lookup);
  FloatLanes way = (x - below) / (findValue(high, book, lookup) - below);
  return select(random < way, high, low);
}

/// Returns the bits of f16, to which processors round in hardware.
static IntLanes encodeHalf(FloatLanes x) {
  ImplicitLocOpBuilder &b = *x.builder;
  Value half = arith::TruncFOp::create(b, x.typeWith(b.getF16Type()), x.value);
  return {b, arith::BitcastOp::create(b, x.typeWith(b.getI16Type()), half)};
}

static FloatLanes decodeHalf(IntLanes code) {
  ImplicitLocOpBuilder &b = *code.builder;
  Type half = code.typeWith(b.getF16Type());
  FloatLanes number(b, arith::BitcastOp::create(b, half, code.value));
  return number.resize(32);
}

bool LaneCodec::divides() const {
  return !format.getExpand() && !format.multiplies();
}

LaneCodec::Shared LaneCodec::prepareEncoding(const Factors &factors,
                                             bool isMeasured,
                                             bool isGuarded) const {
  if (factors.power)
    return prepareExpansion(factors);
  if (!divides() || !(isMeasured || isGuarded))
    return {factors.factor};
  // The offset bounds the factor from below, a quotient of floats from above.
  constexpr double kMinLargest = 8;
  bool isBounded = isMeasured && format.getRule() == ScaleRule::AmaxOffset &&
                   format.getLargest() >= kMinLargest;
  isBounded |= isMeasured && format.getCompanded() && format.getScale().isF16();
  return isBounded ? prepareBoundedDivisor(factors.factor)
                   : prepareDivisor(factors.factor);
}

unsigned LaneCodec::countEncodingNumbers() const {
  return format.getExpand()    ? kExpansionNumbers
         : format.multiplies() ? 1
                               : kQuotientNumbers;
}

LaneCodec::Shared LaneCodec::prepareDecoding(const Factors &factors) const {
  if (factors.power)
    return prepareContraction(factors);
  if (factors.tensor)
    return {factors.scale, *factors.tensor};
  return {factors.scale};
}

IntLanes LaneCodec::encode(FloatLanes x, ArrayRef<FloatLanes> shared,
                           bool saturate, Lookup lookup,
                           std::optional<FloatLanes> random) const {
  if (format.getExpand())
    x = expandRange(x, shared);
  else if (shared.size() == kQuotientNumbers)
    x = divideBy(x, shared);
  else if (!shared.empty())
    x = format.multiplies() ? x * shared[0] : x / shared[0];
  if (CompandedAttr companded = format.getCompanded())
    return encodeCompanded(x, companded);
  if (CodeBookAttr book = format.getBook())
    return random ? findCodeRandomly(x, book, lookup, *random)
                  : findCode(x, book, lookup);
  if (random)
    x = roundRandomly(x, format.getFormat(), *random);
  FloatType type = format.getFormat();
  if (!type.isF16())
    return encodeSmall(x, type, saturate);
  if (saturate)
    x = atLeast(atMost(x, format.getLargest()), -format.getLargest());
  return encodeHalf(x);
}

FloatLanes LaneCodec::decode(IntLanes code, ArrayRef<FloatLanes> shared,
                             Lookup lookup) const {
  if (CompandedAttr companded = format.getCompanded())
    return decodeCompanded(code, companded, shared[0]);
  CodeBookAttr book = format.getBook();
  FloatType type = format.getFormat();
  bool isHalf = type && type.isF16();
  if (format.getExpand() && !isHalf)
    return contractRange(findLogarithm(code, format, lookup),
                         findSign(code, format), shared);
  FloatLanes number = book     ? findValue(code, book, lookup)
                      : isHalf ? decodeHalf(code)
                               : decodeSmall(code, type);
  if (format.getTensorScale())
    return number * shared[0] * shared[1];
  if (!format.getExpand())
    return number * shared[0];
  return contractRange(findLogarithm(number.apply<math::AbsFOp>()), number,
                       shared);
}
