//===- Compare.h - Bitwise comparison of elements ---------------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_COMPARE_H
#define BINADE_LIB_VERIFICATION_COMPARE_H

#include "binade/Verification/Verification.h"

namespace mlir::binade {

using Bytes = std::vector<std::byte>;

/// Returns element `index` of `bytes` as a double.
double readElement(::binade::DType dtype, std::span<const std::byte> bytes,
                   int64_t index);

/// Returns the distance of two elements in units of the last place of `dtype`;
/// NaN if one is NaN.
double countUlps(::binade::DType dtype, std::span<const std::byte> left,
                 std::span<const std::byte> right, int64_t index);

/// Returns the spacing of values of the floating-point type `dtype` at `value`.
double getSpacing(::binade::DType dtype, double value);

/// Rounds `values` to the floating-point type `dtype`, toward positive infinity
/// if `up`, else toward negative infinity. NaN, and values beyond the range of
/// a format without infinities, become NaN.
Bytes roundToward(::binade::DType dtype, ArrayRef<double> values, bool up);

/// Returns the first element whose bits differ, with the number of such
/// elements; nothing if all are equal. In formats of 16 bits and more, all NaNs
/// are equal.
std::optional<Difference> compareBits(::binade::DType dtype,
                                      std::span<const std::byte> value,
                                      std::span<const std::byte> expected);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_COMPARE_H
