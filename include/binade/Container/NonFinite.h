//===- NonFinite.h - Search for non-finite elements -------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_NONFINITE_H
#define BINADE_CONTAINER_NONFINITE_H

#include "binade/Container/DType.h"
#include <span>
#include <string>
#include <vector>

namespace binade {

/// The elements of a tensor that are NaN or infinite.
struct NonFinite {
  std::size_t count = 0;
  std::size_t first = 0; ///< Index of the first one, if any.

  /// Returns "2 values that are not finite, the first as element 5".
  std::string describe() const;
};

/// Counts the non-finite elements of a tensor of F64, F32, F16 or BF16; returns
/// 0 for other types. Minus infinity, which masks contain, counts only with
/// `countsMinusInfinity`.
NonFinite findNonFinite(DType dtype, std::span<const std::byte> bytes,
                        bool countsMinusInfinity = true);

/// A tensor with elements that are not finite.
struct NonFiniteTensor {
  std::string name;
  std::size_t count = 0, elements = 0;
};

/// Returns "2 parameters are not finite: 'w' (12 of 12 elements), 'b' (1 of 3
/// elements)", with the names of the first few, where `what` is "parameter".
std::string describe(const std::vector<NonFiniteTensor> &tensors,
                     std::string_view what);

} // namespace binade

#endif // BINADE_CONTAINER_NONFINITE_H
