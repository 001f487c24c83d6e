//===- SmallFloats.cpp - Casts of floats of at most 8 bits ----------------===//
//
// One algorithm handles all formats, with the parameters of APFloat. A
// conversion is left to a target only if the target's own rounds, saturates and
// handles NaN in the same way.
//
//===----------------------------------------------------------------------===//

#include "SmallFloats.h"
#include "binade/Codegen/Saturate.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

bool mlir::binade::isSmallFloat(Type type) {
  auto format = dyn_cast<FloatType>(type);
  return format && format.getWidth() <= 8 &&
         APFloat::semanticsHasSignedRepr(format.getFloatSemantics()) &&
         APFloat::semanticsHasZero(format.getFloatSemantics());
}

namespace {
/// The parameters of a format.
struct SmallFormat {
  explicit SmallFormat(FloatType format)
      : semantics(format.getFloatSemantics()), width(format.getWidth()),
        fraction(APFloat::semanticsPrecision(semantics) - 1),
        minExponent(APFloat::semanticsMinExponent(semantics)),
        largest(APFloat::getLargest(semantics).bitcastToAPInt().getZExtValue()),
        hasInf(APFloat::semanticsHasInf(semantics)),
        hasNaN(APFloat::semanticsHasNaN(semantics)),
        hasNegativeZero(
            APFloat::getZero(semantics, /*Negative=*/true).isNegative()) {}

  uint64_t getSign() const { return uint64_t(1) << (width - 1); }
  /// Returns the mask of all bits but the sign.
  uint64_t getMagnitude() const { return getSign() - 1; }
  /// Returns the bit pattern of NaN, which is that of -0 in formats without -0.
  uint64_t getNaN() const {
    if (!hasNegativeZero)
      return getSign();
    return hasNaN ? getMagnitude() : largest;
  }
  uint64_t getInf() const { return largest + 1; }

  const llvm::fltSemantics &semantics;
  unsigned width, fraction;
  int minExponent;
  uint64_t largest; ///< Its bit pattern.
  bool hasInf, hasNaN, hasNegativeZero;
};
} // namespace

static constexpr unsigned kExponentBias = 127;
static constexpr uint64_t kQuietNaN = 0x7fc00000;

static uint64_t bitsOf(double number) {
  return llvm::bit_cast<uint32_t>(static_cast<float>(number));
}

/// Rounds magnitudes that are normal in the format. The bits that are cut off,
/// and the last bit kept, decide whether adding less than a half carries.
static IntLanes roundNormal(IntLanes magnitude, const SmallFormat &format) {
  unsigned cut = kFractionBits - format.fraction;
  // In the format, the smallest exponent has an exponent field of 1.
  uint64_t rebias = uint64_t(kExponentBias + format.minExponent - 1)
                    << kFractionBits;
  uint64_t half = (uint64_t(1) << (cut - 1)) - 1;
  auto added = static_cast<uint32_t>(half - rebias);
  return (magnitude + ((magnitude >> cut) & 1) + added) >> cut;
}

/// Rounds the other magnitudes: adding a value whose last bit is worth as much
/// as the format's last bit rounds to it.
static IntLanes roundSubnormal(FloatLanes magnitude,
                               const SmallFormat &format) {
  double step = std::ldexp(1.0, format.minExponent - int(format.fraction));
  double anchor = std::ldexp(step, kFractionBits);
  return (magnitude + anchor).bits() - bitsOf(anchor);
}

bool mlir::binade::hasInstructions(FloatType type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(type);
}

IntLanes mlir::binade::encodeSmall(FloatLanes x, FloatType type,
                                   bool saturate) {
  if (!hasInstructions(type))
    return expandEncode(x, type, saturate);
  ImplicitLocOpBuilder &b = *x.builder;
  Value number = saturate ? clampTo(b, x.value, type) : x.value;
  Value code = arith::TruncFOp::create(b, x.typeWith(type), number);
  return {b, arith::BitcastOp::create(b, x.typeWith(b.getI8Type()), code)};
}

IntLanes mlir::binade::expandEncode(FloatLanes x, FloatType type,
                                    bool saturate) {
  SmallFormat format(type);
  IntLanes bits = x.bits();
  IntLanes magnitude = bits & 0x7fffffff;
  IntLanes least = bits.constant(bitsOf(std::ldexp(1.0, format.minExponent)));
  IntLanes code = select(magnitude.compare(arith::CmpIPredicate::ult, least),
                         roundSubnormal(floatFromBits(magnitude), format),
                         roundNormal(magnitude, format));
  IntLanes sign = (bits >> (32 - format.width)) & format.getSign();
  if (!format.hasNegativeZero)
    sign = select(code.compare(arith::CmpIPredicate::eq, code.constant(0)),
                  code, sign);
  IntLanes nan = bits.constant(format.getNaN());
  if (!saturate && !format.hasInf && format.hasNaN) {
    // NaN is among the values that are too large.
    BoolLanes isBeyond =
        code.compare(arith::CmpIPredicate::ugt, code.constant(format.largest));
    return select(isBeyond, nan, code | sign).resize(8);
  }
  uint64_t most = !saturate && format.hasInf ? format.getInf() : format.largest;
  IntLanes kept(*code.builder,
                arith::MinUIOp::create(*code.builder, code.value,
                                       code.constant(most).value));
  return select(x.isNaN(), nan, kept | sign).resize(8);
}

static constexpr unsigned kHalfFraction = 10;
static constexpr int kHalfMinExponent = -14;
static constexpr uint64_t kHalfInf = 0x7c00;

/// Corrects infinities and NaN that f16 does not represent in the same way,
/// which the bit pattern identifies.
static FloatLanes decodeSpecial(FloatLanes number, IntLanes code,
                                const SmallFormat &format) {
  IntLanes bits = number.bits(), nan = bits.constant(kQuietNaN);
  if (!format.hasNegativeZero)
    return floatFromBits(select(
        code.compare(arith::CmpIPredicate::eq, code.constant(format.getNaN())),
        nan, bits));
  IntLanes magnitude = code & format.getMagnitude();
  if (format.hasInf) {
    IntLanes inf = magnitude.constant(format.getInf());
    IntLanes special = select(magnitude.compare(arith::CmpIPredicate::eq, inf),
                              (bits & 0x80000000) | bitsOf(INFINITY), nan);
    return floatFromBits(select(
        magnitude.compare(arith::CmpIPredicate::ult, inf), bits, special));
  }
  BoolLanes isNaN = magnitude.compare(arith::CmpIPredicate::eq,
                                      magnitude.constant(format.getNaN()));
  return floatFromBits(select(isNaN, nan, bits));
}

FloatLanes mlir::binade::decodeSmall(IntLanes code, FloatType type) {
  if (!hasInstructions(type))
    return expandDecode(code, type);
  ImplicitLocOpBuilder &b = *code.builder;
  Value number = arith::BitcastOp::create(b, code.typeWith(type), code.value);
  return {b, arith::ExtFOp::create(b, code.typeWith(b.getF32Type()), number)};
}

/// Decodes through f16, whose smallest subnormal is less than the format's, and
/// whose subnormals processors widen at full speed: the exponent field is
/// interpreted as that of f16, and a multiplication by a power of two corrects
/// the result. If all exponent fields are finite values, f32 is used instead of
/// f16.
FloatLanes mlir::binade::expandDecode(IntLanes code, FloatType type) {
  SmallFormat format(type);
  ImplicitLocOpBuilder &b = *code.builder;
  unsigned shift = kHalfFraction - format.fraction;
  if (!format.hasInf && format.largest << shift >= kHalfInf) {
    unsigned up = kFractionBits - format.fraction;
    IntLanes wide = code.resize(32);
    IntLanes bits = ((wide & format.getMagnitude()) << up) |
                    ((wide & format.getSign()) << (32 - format.width));
    FloatLanes number =
        floatFromBits(bits) *
        std::ldexp(1.0, format.minExponent + int(kExponentBias) - 1);
    return decodeSpecial(number, code, format);
  }
  IntLanes half = code;
  if (format.width == 8) {
    // Sign extension fills the upper bits with copies of the sign; one is kept.
    IntLanes wide(b, arith::ExtSIOp::create(b, code.typeWith(b.getI16Type()),
                                            code.value));
    half = (wide << shift) & (0x8000 | format.getMagnitude() << shift);
  } else {
    IntLanes wide = code.resize(16);
    half = ((wide & format.getMagnitude()) << shift) |
           ((wide & format.getSign()) << (16 - format.width));
  }
  FloatLanes narrow(b, arith::BitcastOp::create(
                           b, half.typeWith(b.getF16Type()), half.value));
  FloatLanes number = narrow.resize(32);
  if (int exponent = format.minExponent - kHalfMinExponent)
    number = number * std::ldexp(1.0, exponent);
  if (!format.hasNaN || format.getInf() << shift == kHalfInf)
    return number; // f16 represents infinities and NaN in the same way.
  return decodeSpecial(number, code, format);
}

FloatLanes mlir::binade::decodePower(IntLanes field) {
  auto is = [&](uint64_t number) {
    return field.compare(arith::CmpIPredicate::eq, field.constant(number));
  };
  IntLanes bits = field << kFractionBits;
  bits = select(is(0), bits.constant(0x00400000), bits);
  return floatFromBits(select(is(255), bits.constant(kQuietNaN), bits));
}
