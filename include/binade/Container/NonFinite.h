//===- NonFinite.h - Elements that are not finite ---------------*- C++ -*-===//

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
  std::size_t first = 0; ///< Index of the first, if there is any.

  /// "2 values that are not finite, the first as element 5".
  std::string describe() const;
};

/// Searches a tensor of 16 bits or more; in another there are none. Without
/// `countsMinusInfinity` those do not count: masks are made of them.
NonFinite findNonFinite(DType dtype, std::span<const std::byte> bytes,
                        bool countsMinusInfinity = true);

/// A tensor with elements that are not finite.
struct NonFiniteTensor {
  std::string name;
  std::size_t count = 0, elements = 0;
};

/// "2 parameters are not finite: 'w' (12 of 12 elements), 'b' (1 of 3
/// elements)"; the first few by name. `what` is "parameter".
std::string describe(const std::vector<NonFiniteTensor> &tensors,
                     std::string_view what);

} // namespace binade

#endif // BINADE_CONTAINER_NONFINITE_H
