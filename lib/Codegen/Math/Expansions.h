//===- Expansions.h - functions as arithmetic -------------------*- C++ -*-===//
//
// Each function takes f32 lanes and returns f32 lanes, or f64 where it is
// called scalar; docs/Math.md has the measured error of each. They know no pass
// and match nothing.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_MATH_EXPANSIONS_H
#define BINADE_LIB_CODEGEN_MATH_EXPANSIONS_H

#include "../Lanes.h"

namespace mlir::binade {

FloatLanes expandExp(FloatLanes x);
FloatLanes expandExp2(FloatLanes x);
FloatLanes expandExpm1(FloatLanes x);

FloatLanes expandLog(FloatLanes x);
FloatLanes expandLog2(FloatLanes x);
FloatLanes expandLog1p(FloatLanes x);

FloatLanes expandTanh(FloatLanes x);
FloatLanes expandErf(FloatLanes x);

FloatLanes expandSin(FloatLanes x);
FloatLanes expandCos(FloatLanes x);
FloatLanes expandAtan(FloatLanes x);

FloatLanes expandRsqrt(FloatLanes x);
FloatLanes expandPow(FloatLanes x, FloatLanes y);

FloatLanes expandScalarExp(FloatLanes x);
FloatLanes expandScalarLog(FloatLanes x);
FloatLanes expandScalarPow(FloatLanes x, FloatLanes y);

/// x^y where z is |x|^y: signs, NaN, and what is 1.
FloatLanes withSignsOfPow(FloatLanes x, FloatLanes y, FloatLanes z);

/// x to the power of a constant for which a few operations do: 2, 3, 1, -1,
/// 0.5 and -0.5. Nothing for any other.
std::optional<FloatLanes> expandPowConstant(FloatLanes x,
                                            const APFloat &exponent);

/// e^x = fraction * 2^n for |x| <= 105. The low bits of `shifted` hold n +
/// bias.
struct ScaledExp {
  FloatLanes fraction;
  IntLanes shifted;
};
ScaledExp splitExp(FloatLanes x, int bias);

/// x = 2^n * (1 + f) for positive x, subnormal too; -1/3 <= f < 1/3, n
/// integral.
struct SplitLog {
  FloatLanes n;
  FloatLanes f;
};
SplitLog splitLog(FloatLanes x);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_MATH_EXPANSIONS_H
