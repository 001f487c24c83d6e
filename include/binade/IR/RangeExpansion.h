//===- RangeExpansion.h - Constants of range expansion ----------*- C++ -*-===//
//
// The polynomials by which formats with range expansion (`expand` of
// `#binade.quantized`) compute logarithms and powers of two. They are part of
// the format: the reference, CPUs and GPUs evaluate them by the same operations
// in f32, so that all get the same bits
// (docs/decisions/0058-range-expansion-bits.md).
//
// Coefficients are in the order of rising degree. utils/minimax.py computes
// them.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_RANGEEXPANSION_H
#define BINADE_IR_RANGEEXPANSION_H

#include "binade/IR/Binade.h"

namespace mlir::binade::expansion {

/// log2(1.5). The logarithm of a fraction m in [1, 2) is this plus d q(d),
/// where d = m - 1.5 and q is one of the polynomials `kLog2`.
inline constexpr double kLog2OfMiddle = 0x1.2b8034p-1;

/// `kLog2` is for values that a group shares, `kShortLog2` for elements, of
/// which the quantized values keep at most four bits.
inline constexpr double kLog2[] = {
    0x1.ec7088p-1, -0x1.484abp-2,  0x1.23e3dap-3, -0x1.2403c4p-4,
    0x1.330276p-5, -0x1.51b32ap-6, 0x1.e34ed2p-7, -0x1.2821aep-7};
inline constexpr double kShortLog2[] = {
    0x1.ec707ep-1, -0x1.48517ep-2, 0x1.23eaep-3, -0x1.216fap-4,
    0x1.3205eep-5, -0x1.98d574p-6, 0x1.ece0eep-7};

/// 2^r is 1 + r q(r) for r in [-1/2, 1/2].
inline constexpr double kPower[] = {0x1.62e42ap-1, 0x1.ebf9c2p-3, 0x1.c6b6dap-5,
                                    0x1.3ce8b4p-7, 0x1.5bd96p-10};
inline constexpr double kShortPower[] = {0x1.62e12cp-1, 0x1.ec0372p-3,
                                         0x1.c9fc7ep-5, 0x1.3a0456p-7};

/// The range of exponents of powers of two: a smaller exponent gives 0, a
/// larger one is replaced by the maximum.
inline constexpr double kMinExponent = -127, kMaxExponent = 127.5;
/// Powers are multiples of 1 / kSteps, at least 1 / kSteps.
inline constexpr double kSteps = 16.0;
/// A group whose largest magnitude is at most this many times its smallest one
/// has the power 1.
inline constexpr double kConstantRatio = 1.0 + 0x1p-12;

/// Returns the ratio of two magnitudes that `format` can represent. Range
/// expansion chooses its power so that the ratio of a group's largest and
/// smallest magnitude is at most this afterwards.
inline float getBound(QuantizedAttr format) {
  FloatType type = format.getFormat();
  bool isFinite = type && !APFloat::semanticsHasInf(type.getFloatSemantics());
  double range = isFinite ? format.getLargest() : 1.0 / format.getLeast();
  return static_cast<float>(format.getLargest() * range / 2.0);
}

} // namespace mlir::binade::expansion

#endif // BINADE_IR_RANGEEXPANSION_H
