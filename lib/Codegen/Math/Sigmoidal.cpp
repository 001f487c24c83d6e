//===- Sigmoidal.cpp - tanh, erf, erfc ------------------------------------===//
//
// Odd functions that saturate. Near zero an odd polynomial keeps the relative
// error small; elsewhere the result is 1 minus a tail computed from an
// exponential. For results of 16 bits, one odd polynomial of erf reaches as far
// as the result differs from 1. utils/minimax.py computes the coefficients.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

using namespace mlir;
using namespace mlir::binade;

static FloatLanes magnitude(FloatLanes x) { return x.apply<math::AbsFOp>(); }

static constexpr double kTanhForBF16[] = {-0x1.5265e2p-2, 0x1.bbe2fep-4};
static constexpr double kTanh[] = {-0x1.555532p-2, 0x1.1106f6p-3,
                                   -0x1.b835a4p-5, 0x1.51f8cep-6,
                                   -0x1.750ce4p-8};
static constexpr double kTanhForF16[] = {-0x1.55269ep-2, 0x1.0b3a94p-3,
                                         -0x1.4be5c8p-5};
static const NarrowCoefficients kNarrowTanh = {kTanhForBF16, kTanhForF16};

FloatLanes mlir::binade::expandTanh(FloatLanes x, FloatType accuracy) {
  FloatLanes a = magnitude(x);
  FloatLanes z = x * x;
  FloatLanes q =
      polynomial(z, accuracy ? chooseFor(accuracy, kNarrowTanh) : kTanh);
  FloatLanes near = fma(q * z, a, a);

  // 1 - 2 / (e^2a + 1), which rounds to 1 for a >= 9.125.
  FloatLanes bounded = atMost(a, 9.125);
  ScaledExp exp = splitExp(bounded + bounded, 127, accuracy);
  FloatLanes power = floatFromBits(exp.shifted << 23);
  FloatLanes tail = a.constant(2.0) / fma(exp.fraction, power, 1.0);
  FloatLanes far = a.constant(1.0) - tail;
  return copySign(select(a < 0.625, near, far), x);
}

/// Returns x q(x^2), which is close to 1 at `last`, and stays so beyond.
static FloatLanes saturatingPolynomial(FloatLanes x, double last,
                                       ArrayRef<double> q) {
  FloatLanes bounded = atLeast(atMost(x, last), -last);
  return bounded * polynomial(bounded * bounded, q);
}

static constexpr double kErfForBF16[] = {
    0x1.20d984p+0, -0x1.803cf2p-2,  0x1.c49768p-4,  -0x1.8fa4e8p-6,
    0x1.f97d68p-9, -0x1.a8e528p-12, 0x1.a20722p-16, -0x1.67f942p-21};
static constexpr double kErfForF16[] = {
    0x1.20dcf2p+0,  -0x1.8100c0p-2,  0x1.cc3410p-4,  -0x1.ad9d36p-6,
    0x1.388778p-8,  -0x1.5a6664p-11, 0x1.16cfaep-14, -0x1.2ec0fcp-18,
    0x1.8819b2p-23, -0x1.c5e22ap-29};

FloatLanes mlir::binade::expandErf(FloatLanes x, FloatType accuracy) {
  if (accuracy)
    return accuracy.isBF16() ? saturatingPolynomial(x, 2.796875, kErfForBF16)
                             : saturatingPolynomial(x, 3.09375, kErfForF16);
  FloatLanes a = magnitude(x);
  FloatLanes z = x * x;
  FloatLanes q =
      polynomial(z, {0x1.06eba8p-3, -0x1.812728p-2, 0x1.ce25e8p-4,
                     -0x1.b73f56p-6, 0x1.4bbc2ap-8, -0x1.4e3a76p-11});
  FloatLanes near = fma(q, a, a);

  // 1 - e^h with h = log(erfc(a)), which rounds to 1 from 3.93 on.
  FloatLanes h =
      polynomial(atMost(a, 4.0), {-0x1.89e4c6p-14, -0x1.20cba2p+0,
                                  -0x1.45db1cp-1, -0x1.ac71f8p-4, 0x1.7191aep-6,
                                  -0x1.99f2eap-9, 0x1.ad4f7ap-13});
  ScaledExp exp = splitExp(h, 127);
  FloatLanes power = floatFromBits(exp.shifted << 23);
  FloatLanes far = fma(-exp.fraction, power, 1.0);
  // The comparison is false for NaN, so that NaN takes the branch that keeps
  // it.
  return copySign(select(a > 0.84375, far, near), x);
}

// log2(erfc(x)) / x for 0 <= x <= 10.1.
static constexpr double kErfcForBF16[] = {
    -0x1.a0a526p+0,  -0x1.d65494p-1, -0x1.35c41ap-3,
    0x1.153126p-5,   -0x1.6862f6p-8, 0x1.430f18p-11,
    -0x1.7690e4p-15, 0x1.f66720p-20, -0x1.26db62p-25};
static constexpr double kErfcForF16[] = {
    -0x1.a0d2d6p+0, -0x1.d5102ep-1,  -0x1.3c1220p-3,  0x1.2472bcp-5,
    -0x1.90d358p-8, 0x1.7f0942p-11,  -0x1.cf5542p-15, 0x1.0b2bbcp-19,
    0x1.1d9f2cp-25, -0x1.89483cp-28, 0x1.4bf7bcp-33};
static const NarrowCoefficients kNarrowErfc = {kErfcForBF16, kErfcForF16};

FloatLanes mlir::binade::expandErfc(FloatLanes x, FloatType accuracy) {
  bool isTail = isNeverNegative(x.value);
  FloatLanes bounded = atMost(isTail ? x : magnitude(x), 10.09375);
  FloatLanes q = polynomial(bounded, chooseFor(accuracy, kNarrowErfc));
  FloatLanes tail = expandNarrowExp2(bounded * q, accuracy);
  return isTail ? tail : select(x < 0.0, x.constant(2.0) - tail, tail);
}
