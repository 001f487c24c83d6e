//===- Compare.h - elements as bits -----------------------------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_COMPARE_H
#define BINADE_LIB_VERIFICATION_COMPARE_H

#include "binade/Verification/Verification.h"

namespace mlir::binade {

using Bytes = std::vector<std::byte>;

/// Element `index` of `bytes` as a number.
double readElement(::binade::DType dtype, std::span<const std::byte> bytes,
                   int64_t index);

/// How many steps along the numbers of `dtype` lead from one to the other; NaN
/// where one is NaN.
double countUlps(::binade::DType dtype, std::span<const std::byte> left,
                 std::span<const std::byte> right, int64_t index);

/// Distance of the neighbours of `value` in the float type `dtype`.
double getSpacing(::binade::DType dtype, double value);

/// `values` as numbers of the float type `dtype`: the least that is not below
/// each, or the largest that is not above. A NaN where there is none.
Bytes roundToward(::binade::DType dtype, ArrayRef<double> values, bool up);

/// The first element whose bits differ, if any does, and how many do. NaN is
/// NaN in formats of 16 bits and more.
std::optional<Difference> compareBits(::binade::DType dtype,
                                      std::span<const std::byte> value,
                                      std::span<const std::byte> expected);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_COMPARE_H
