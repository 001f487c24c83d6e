//===- NonFinite.h - Elements that are no numbers ---------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_NONFINITE_H
#define BINADE_CONTAINER_NONFINITE_H

#include "binade/Container/DType.h"
#include <span>
#include <string>

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

} // namespace binade

#endif // BINADE_CONTAINER_NONFINITE_H
