//===- DoubleFloat.cpp - Twice the precision of f64 -----------------------===//
//
// The algorithms of Dekker (1971) and Knuth, with fma instead of splitting.
//
//===----------------------------------------------------------------------===//

#include "DoubleFloat.h"

using namespace mlir;
using namespace mlir::binade;

DoubleFloat mlir::binade::addSmaller(FloatLanes a, FloatLanes b) {
  FloatLanes sum = a + b;
  return {sum, b - (sum - a)};
}

DoubleFloat mlir::binade::addExactly(FloatLanes a, FloatLanes b) {
  FloatLanes sum = a + b, other = sum - a;
  return {sum, (a - (sum - other)) + (b - other)};
}

DoubleFloat mlir::binade::multiplyExactly(FloatLanes a, FloatLanes b) {
  FloatLanes product = a * b;
  return {product, fma(a, b, -product)};
}

DoubleFloat DoubleFloat::operator+(DoubleFloat x) const {
  DoubleFloat highs = addExactly(high, x.high), lows = addExactly(low, x.low);
  DoubleFloat sum = addSmaller(highs.high, highs.low + lows.high);
  return addSmaller(sum.high, sum.low + lows.low);
}

DoubleFloat DoubleFloat::operator*(DoubleFloat x) const {
  DoubleFloat product = multiplyExactly(high, x.high);
  FloatLanes rest = fma(high, x.low, fma(low, x.high, product.low));
  return addSmaller(product.high, rest);
}

DoubleFloat DoubleFloat::operator/(DoubleFloat x) const {
  FloatLanes first = high / x.high;
  // The remainder of the dividend, exact except for the low parts.
  FloatLanes rest = fma(-first, x.high, high);
  rest = fma(-first, x.low, rest + low);
  return addSmaller(first, rest / x.high);
}
