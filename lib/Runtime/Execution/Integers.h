//===- Integers.h - Type conversions and range checks -----------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_INTEGERS_H
#define BINADE_LIB_RUNTIME_EXECUTION_INTEGERS_H

#include "binade/Plan/Plan.h"
#include <span>

namespace binade {

/// Whether `to` represents every value of type `from` exactly: integers in wide
/// enough integers or floats, floats in wider floats, and any type in itself.
bool holdsAll(DType to, DType from);

/// Whether `to` may represent values of `from`: both are integer types.
bool mayRepresent(DType to, DType from);

/// An element that a type cannot represent.
struct Unrepresentable {
  std::uint64_t index = 0;
  std::string value;
};
/// Returns the first of `elements`, integers of type `from`, that the integer
/// type `to` cannot represent.
std::optional<Unrepresentable>
findUnrepresentable(DType from, std::span<const std::byte> elements, DType to);

/// Converts elements of type `from` to the type `to`, which can represent them.
void widen(DType from, std::span<const std::byte> elements, DType to,
           std::span<std::byte> into);

struct OutOfRange {
  std::uint64_t index = 0;
  std::int64_t value = 0;
};

/// Returns the first of `elements`, from element `start` on, that is out of the
/// range of `check`.
std::optional<OutOfRange> findOutOfRange(DType type,
                                         std::span<const std::byte> elements,
                                         std::uint64_t start,
                                         const plan::IndexCheck &check);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_INTEGERS_H
