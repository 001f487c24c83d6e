//===- DoubleFloat.h - Values with twice the precision of f64 ---*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_MATH_DOUBLEFLOAT_H
#define BINADE_LIB_CODEGEN_MATH_DOUBLEFLOAT_H

#include "../Lanes.h"

namespace mlir::binade {

/// high + low, in f64, where |low| is at most half a unit in the last place of
/// high. Sums and products have errors of about 2^-102 of the larger operand.
struct DoubleFloat {
  FloatLanes high, low;

  static DoubleFloat constant(FloatLanes like, double high, double low = 0.0) {
    return {like.constant(high), like.constant(low)};
  }
  DoubleFloat operator+(DoubleFloat x) const;
  DoubleFloat operator*(DoubleFloat x) const;
  DoubleFloat operator/(DoubleFloat x) const;
};

/// Return a + b and a * b exactly.
DoubleFloat addExactly(FloatLanes a, FloatLanes b);
DoubleFloat multiplyExactly(FloatLanes a, FloatLanes b);

/// Returns a + b exactly if |a| >= |b| or a = 0.
DoubleFloat addSmaller(FloatLanes a, FloatLanes b);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_MATH_DOUBLEFLOAT_H
