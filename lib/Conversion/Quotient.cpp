//===- Quotient.cpp - many numbers divided by one -------------------------===//

#include "Quotient.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Unit and reciprocal are negative, so that zeros keep their sign.
SmallVector<FloatLanes, 4> mlir::binade::prepareDivisor(FloatLanes divisor) {
  FloatLanes unit = select(divisor < 0x1p64, -1.0, divisor.constant(-0x1p-32));
  unit = select(divisor < 0x1p32, -0x1p64, unit);
  FloatLanes own = divisor * -unit;
  FloatLanes inverse = own.constant(-1.0) / own;
  // Of an infinite one the first product is the quotient.
  return {unit, select(own == INFINITY, 1.0, own), inverse};
}

FloatLanes mlir::binade::divideBy(FloatLanes x, ArrayRef<FloatLanes> divisor) {
  FloatLanes unit = divisor[0], own = divisor[1], inverse = divisor[2];
  FloatLanes opposite = x * unit;
  FloatLanes quotient = opposite * inverse;
  FloatLanes excess = fma(own, quotient, opposite);
  return fma(excess, inverse, quotient);
}
