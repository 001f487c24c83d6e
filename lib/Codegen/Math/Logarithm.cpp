//===- Logarithm.cpp - log, log2, log1p -----------------------------------===//
//
// utils/minimax.py computes the coefficients.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr double kLn2 = 0x1.62e430p-1;
// log2(e) - kLog2E.
static constexpr double kLog2ELow = 0x1.4ae0c0p-26;

// Subtracting the bit pattern of 2/3 from that of x leaves n in the exponent
// field; adding 2/3 back to the other bits gives 2/3 <= x 2^-n < 4/3.
static constexpr uint64_t kTwoThirds = 0x3f2aaaab;
static constexpr uint64_t kThreeQuarters = 0x3f400000;
static constexpr uint64_t kExponentMask = 0xff800000;
static constexpr uint64_t kFractionMask = 0x007fffff;

// (log(1 + f) - f) / f^2 for results of 16 bits.
static constexpr double kLogForBF16[] = {-0x1.ff48cep-2, 0x1.5468d2p-2,
                                         -0x1.19adfcp-2, 0x1.cc5782p-3};
static constexpr double kLogForF16[] = {-0x1.0001a8p-1, 0x1.547154p-2,
                                        -0x1.fd6526p-3, 0x1.cbb61ap-3,
                                        -0x1.892350p-3};
static const NarrowCoefficients kNarrowLog = {kLogForBF16, kLogForF16};

SplitLog mlir::binade::splitLog(FloatLanes x) {
  BoolLanes subnormal = x < 0x1p-126;
  FloatLanes normal = select(subnormal, x * 0x1p23, x);
  FloatLanes correction = select(subnormal, -23.0, x.constant(0.0));
  IntLanes offset = normal.bits() - kTwoThirds;
  FloatLanes n = toFloat(offset.shiftSigned(23)) + correction;
  FloatLanes m = floatFromBits((offset & kFractionMask) + kTwoThirds);
  return {n, m - 1.0};
}

/// Returns y, with the special values of a logarithm whose pole is `pole`: x if
/// it is NaN or Inf, -Inf at the pole and NaN below it.
static FloatLanes withDomain(FloatLanes x, double pole, FloatLanes y) {
  y = select(x < kInfinity, y, x);
  y = select(x == pole, -kInfinity, y);
  return select(x < pole, kNaN, y);
}

/// Returns n ln 2 + log(1 + f), where q(f) = (log(1 + f) - f) / f^2.
static FloatLanes sumLog(FloatLanes n, FloatLanes f, ArrayRef<double> q) {
  return fma(n, kLn2, fma(f * f, polynomial(f, q), f));
}

FloatLanes mlir::binade::expandLog(FloatLanes x, FloatType accuracy) {
  auto [n, f] = splitLog(x);
  if (accuracy)
    return withDomain(x, 0.0, sumLog(n, f, chooseFor(accuracy, kNarrowLog)));
  FloatLanes y = sumLog(n, f,
                        {-0x1.000000p-1, 0x1.555506p-2, -0x1.fffefap-3,
                         0x1.99d04ep-3, -0x1.559c74p-3, 0x1.1ed582p-3,
                         -0x1.f33070p-4, 0x1.1e6c56p-3, -0x1.07ca6cp-3});
  return withDomain(x, 0.0, y);
}

FloatLanes mlir::binade::expandLog2(FloatLanes x) {
  auto [n, f] = splitLog(x);
  FloatLanes q = polynomial(f, {-0x1.715476p-1, 0x1.ec7030p-2, -0x1.7153e0p-2,
                                0x1.279d70p-2, -0x1.ecd0bcp-3, 0x1.9de5b4p-3,
                                -0x1.68520ap-3, 0x1.9cde30p-3, -0x1.7bce54p-3});
  FloatLanes rest = fma(f * f, q, f * kLog2ELow);
  return withDomain(x, 0.0, fma(f, kLog2E, rest) + n);
}

FloatLanes mlir::binade::expandLog1p(FloatLanes x) {
  // n is taken from the rounded sum 1 + x = 2^n (1 + f), -1/4 <= f < 1/2, and f
  // from x itself as x 2^-n + (2^-n - 1). 2^-n is computed from 2^(2-n), which
  // is normal for every n.
  IntLanes exponent = ((x + 1.0).bits() - kThreeQuarters) & kExponentMask;
  FloatLanes scaled = floatFromBits(x.bits() - exponent);
  FloatLanes power = floatFromBits(exponent.constant(0x40800000) - exponent);
  FloatLanes f = scaled + fma(power, 0.25, -1.0);
  FloatLanes n = toFloat(exponent.shiftSigned(23));
  FloatLanes y = sumLog(n, f,
                        {-0x1.000000p-1, 0x1.5555a4p-2, -0x1.00004ap-2,
                         0x1.99699ep-3, -0x1.54ed94p-3, 0x1.288078p-3,
                         -0x1.0d9918p-3, 0x1.acf590p-4, -0x1.71e48ap-5});
  return select(x == 0.0, x, withDomain(x, -1.0, y));
}
