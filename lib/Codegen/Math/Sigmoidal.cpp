//===- Sigmoidal.cpp - tanh, erf ------------------------------------------===//
//
// Odd functions that saturate. Near zero an odd polynomial keeps the relative
// error small; elsewhere the result is 1 minus a tail computed from an
// exponential. utils/minimax.py computes the coefficients.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

using namespace mlir;
using namespace mlir::binade;

static FloatLanes magnitude(FloatLanes x) { return x.apply<math::AbsFOp>(); }

FloatLanes mlir::binade::expandTanh(FloatLanes x) {
  FloatLanes a = magnitude(x);
  FloatLanes z = x * x;
  FloatLanes q = polynomial(z, {-0x1.555532p-2, 0x1.1106f6p-3, -0x1.b835a4p-5,
                                0x1.51f8cep-6, -0x1.750ce4p-8});
  FloatLanes near = fma(q * z, a, a);

  // 1 - 2 / (e^2a + 1), which rounds to 1 for a >= 9.125.
  FloatLanes bounded = atMost(a, 9.125);
  ScaledExp exp = splitExp(bounded + bounded, 127);
  FloatLanes power = floatFromBits(exp.shifted << 23);
  FloatLanes tail = a.constant(2.0) / fma(exp.fraction, power, 1.0);
  FloatLanes far = a.constant(1.0) - tail;
  return copySign(select(a < 0.625, near, far), x);
}

FloatLanes mlir::binade::expandErf(FloatLanes x) {
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
