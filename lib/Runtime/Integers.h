//===- Integers.h - Integers of a type known at run time --------*- C++ -*-===//

#ifndef BINADE_RUNTIME_INTEGERS_H
#define BINADE_RUNTIME_INTEGERS_H

#include "binade/Plan/Plan.h"
#include <span>

namespace binade {

/// True if `to` holds every value of the integer type `from`, or both are the
/// same type.
bool holdsAll(DType to, DType from);

/// Converts elements of type `from` to the type `to` that holds them all.
void widen(DType from, std::span<const std::byte> elements, DType to,
           std::span<std::byte> into);

struct OutOfRange {
  std::uint64_t index = 0;
  std::int64_t value = 0;
};

/// The first of `elements`, from element `start` on, that `check` does not
/// allow.
std::optional<OutOfRange> findOutOfRange(DType type,
                                         std::span<const std::byte> elements,
                                         std::uint64_t start,
                                         const plan::IndexCheck &check);

} // namespace binade

#endif // BINADE_RUNTIME_INTEGERS_H
