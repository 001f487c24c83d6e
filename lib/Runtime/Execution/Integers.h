//===- Integers.h - Integers of a type known at run time --------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_INTEGERS_H
#define BINADE_LIB_RUNTIME_EXECUTION_INTEGERS_H

#include "binade/Plan/Plan.h"
#include <span>

namespace binade {

/// True if `to` holds every value of type `from` exactly: integers in integers
/// and in floats of enough digits, floats in wider ones, and any type in
/// itself.
bool holdsAll(DType to, DType from);

/// True if both types are integers: `to` then holds some values of `from`.
bool mayHold(DType to, DType from);

/// An element that a type does not hold.
struct Unheld {
  std::uint64_t index = 0;
  std::string value;
};
/// The first of `elements`, integers of type `from`, that the integer type `to`
/// does not hold.
std::optional<Unheld> findUnheld(DType from,
                                 std::span<const std::byte> elements, DType to);

/// Converts elements of type `from` to the type `to`, which holds them.
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

#endif // BINADE_LIB_RUNTIME_EXECUTION_INTEGERS_H
