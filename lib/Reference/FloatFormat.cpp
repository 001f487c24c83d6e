//===- FloatFormat.cpp - Rounding to any float format ---------------------===//

#include "binade/Reference/FloatFormat.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using llvm::APFloat;
using llvm::APInt;

static double toDouble(APFloat number) {
  if (number.isNaN())
    return NAN;
  bool inexact;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
  return number.convertToDouble();
}

FloatFormat::FloatFormat(const llvm::fltSemantics &semantics)
    : semantics(semantics), precision(APFloat::semanticsPrecision(semantics)),
      minExponent(APFloat::semanticsMinExponent(semantics)),
      width(APFloat::semanticsSizeInBits(semantics)),
      largest(toDouble(APFloat::getLargest(semantics))),
      smallest(toDouble(APFloat::getSmallest(semantics))),
      hasInf(APFloat::semanticsHasInf(semantics)),
      hasNaN(APFloat::semanticsHasNaN(semantics)),
      hasSign(APFloat::semanticsHasSignedRepr(semantics)),
      hasZero(APFloat::semanticsHasZero(semantics)),
      hasNegativeZero(hasSign && hasZero &&
                      APFloat::getZero(semantics, true).isNegative()) {}

double FloatFormat::getRoundoff() const { return std::ldexp(1.0, -precision); }

double FloatFormat::getSpacing(double x) const {
  if (!std::isfinite(x))
    return std::fabs(x);
  int exponent = x == 0.0 ? minExponent : std::max(std::ilogb(x), minExponent);
  return std::ldexp(1.0, exponent - (precision - 1));
}

double FloatFormat::round(double x, bool saturate) const {
  double nothing = hasNaN ? NAN : largest;
  if (std::isnan(x))
    return nothing;
  if (&semantics == &APFloat::IEEEsingle() && !saturate)
    return static_cast<float>(x);
  if (!hasSign && x < 0.0)
    return saturate ? round(0.0, saturate) : nothing;
  // The quotient has at most 53 bits, so that only `nearbyint` rounds.
  double spacing = getSpacing(x);
  double magnitude = std::isinf(x)
                         ? INFINITY
                         : std::nearbyint(std::fabs(x) / spacing) * spacing;
  if (magnitude > largest) {
    if (saturate || (!hasInf && !hasNaN))
      magnitude = largest;
    else
      magnitude = hasInf ? INFINITY : NAN;
  }
  if (magnitude == 0.0 && !hasZero)
    return saturate ? smallest : nothing;
  if (magnitude == 0.0 && !hasNegativeZero)
    return 0.0;
  return std::copysign(magnitude, x);
}

double FloatFormat::roundRandomly(double x, double random,
                                  bool saturate) const {
  if (!std::isfinite(x))
    return round(x, saturate);
  double spacing = getSpacing(x), steps = std::fabs(x) / spacing;
  double whole = std::floor(steps);
  double magnitude = (whole + (random < steps - whole ? 1.0 : 0.0)) * spacing;
  return round(std::copysign(magnitude, x), saturate);
}

uint64_t FloatFormat::encode(double x) const {
  // NaN has all bits set except the sign, as processors convert it to 8 bits.
  if (std::isnan(x) && width == 8 && hasNegativeZero)
    return 0x7f;
  if (std::isnan(x))
    return APFloat::getNaN(semantics).bitcastToAPInt().getZExtValue();
  if (&semantics == &APFloat::IEEEdouble())
    return llvm::bit_cast<uint64_t>(x);
  if (&semantics == &APFloat::IEEEsingle())
    return llvm::bit_cast<uint32_t>(static_cast<float>(x));
  APFloat number(x);
  bool inexact;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &inexact);
  return number.bitcastToAPInt().getZExtValue();
}

double FloatFormat::decode(uint64_t bits) const {
  if (&semantics == &APFloat::IEEEdouble())
    return llvm::bit_cast<double>(bits);
  if (&semantics == &APFloat::IEEEsingle())
    return llvm::bit_cast<float>(static_cast<uint32_t>(bits));
  return toDouble(APFloat(semantics, APInt(width, bits)));
}
