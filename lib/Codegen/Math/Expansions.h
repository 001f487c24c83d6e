//===- Expansions.h - Math functions as arithmetic --------------*- C++ -*-===//
//
// Each function takes and returns f32 lanes, or f64 lanes if its name contains
// `Scalar`; docs/Math.md gives the measured errors. With an `accuracy`, bf16 or
// f16, the error is small in comparison with the rounding of the result to that
// format; null means f32. They create operations, and do not depend on any pass
// or pattern.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_MATH_EXPANSIONS_H
#define BINADE_LIB_CODEGEN_MATH_EXPANSIONS_H

#include "../Lanes.h"
#include <limits>

namespace mlir::binade {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// log2(e), rounded to f32.
inline constexpr double kLog2E = 0x1.715476p+0;

/// Coefficients of a polynomial, for two accuracies.
struct NarrowCoefficients {
  ArrayRef<double> forBF16, forF16;
};
inline ArrayRef<double> chooseFor(FloatType accuracy,
                                  const NarrowCoefficients &all) {
  return accuracy.isBF16() ? all.forBF16 : all.forF16;
}

FloatLanes expandExp(FloatLanes x, FloatType accuracy = {});
FloatLanes expandExp2(FloatLanes x);
/// Returns 2^x for -151 <= x <= 0. `accuracy` must not be null.
FloatLanes expandNarrowExp2(FloatLanes x, FloatType accuracy);
FloatLanes expandExpm1(FloatLanes x);

FloatLanes expandLog(FloatLanes x, FloatType accuracy = {});
FloatLanes expandLog2(FloatLanes x);
FloatLanes expandLog1p(FloatLanes x);

FloatLanes expandTanh(FloatLanes x, FloatType accuracy = {});
FloatLanes expandErf(FloatLanes x, FloatType accuracy = {});
/// `accuracy` must not be null.
FloatLanes expandErfc(FloatLanes x, FloatType accuracy);

FloatLanes expandSin(FloatLanes x);
FloatLanes expandCos(FloatLanes x);
FloatLanes expandAtan(FloatLanes x);

FloatLanes expandRsqrt(FloatLanes x);
FloatLanes expandPow(FloatLanes x, FloatLanes y);

FloatLanes expandScalarExp(FloatLanes x);
FloatLanes expandScalarLog(FloatLanes x);
FloatLanes expandScalarPow(FloatLanes x, FloatLanes y);

/// Completes pow: given z = |x|^y, returns x^y with its sign and special cases.
FloatLanes withSignsOfPow(FloatLanes x, FloatLanes y, FloatLanes z);

/// Returns x to the power of a constant if a few operations suffice, which
/// holds for 1, 2, 3, -1, 0.5 and -0.5. Otherwise returns nothing.
std::optional<FloatLanes> expandPowConstant(FloatLanes x,
                                            const APFloat &exponent);

/// Whether `x` is never negative, as the ops show that compute it: magnitudes,
/// squares, and products of such values.
bool isNeverNegative(Value x);

/// e^x = fraction * 2^n for |x| <= 105. The low bits of `shifted` are n + bias.
struct ScaledExp {
  FloatLanes fraction;
  IntLanes shifted;
};
ScaledExp splitExp(FloatLanes x, int bias, FloatType accuracy = {});

/// x = 2^n * (1 + f) for positive x, including subnormals; n is an integer and
/// -1/3 <= f < 1/3.
struct SplitLog {
  FloatLanes n;
  FloatLanes f;
};
SplitLog splitLog(FloatLanes x);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_MATH_EXPANSIONS_H
