//===- Integers.cpp - Integers of a type known at run time ----------------===//

#include "Integers.h"
#include <cstring>
#include <limits>
#include <utility>

using namespace binade;

/// Calls `function` with a zero of the C++ type; false for other types.
template <typename Function>
static bool withInteger(DType type, Function function) {
  switch (type) {
  case DType::I64:
    return function(std::int64_t()), true;
  case DType::I32:
    return function(std::int32_t()), true;
  case DType::I16:
    return function(std::int16_t()), true;
  case DType::I8:
    return function(std::int8_t()), true;
  case DType::U64:
    return function(std::uint64_t()), true;
  case DType::U32:
    return function(std::uint32_t()), true;
  case DType::U16:
    return function(std::uint16_t()), true;
  case DType::U8:
    return function(std::uint8_t()), true;
  default:
    return false;
  }
}

template <typename T>
static T load(std::span<const std::byte> elements, std::size_t index) {
  T value;
  std::memcpy(&value, elements.data() + index * sizeof(T), sizeof(T));
  return value;
}

bool binade::holdsAll(DType to, DType from) {
  bool result = to == from;
  withInteger(to, [&](auto wide) {
    withInteger(from, [&](auto narrow) {
      using Wide = std::numeric_limits<decltype(wide)>;
      using Narrow = std::numeric_limits<decltype(narrow)>;
      result = std::cmp_less_equal(Wide::min(), Narrow::min()) &&
               std::cmp_less_equal(Narrow::max(), Wide::max());
    });
  });
  return result;
}

void binade::widen(DType from, std::span<const std::byte> elements, DType to,
                   std::span<std::byte> into) {
  withInteger(to, [&](auto wide) {
    withInteger(from, [&](auto narrow) {
      std::size_t count = elements.size() / sizeof(narrow);
      for (std::size_t i = 0; i < count; ++i) {
        auto value =
            static_cast<decltype(wide)>(load<decltype(narrow)>(elements, i));
        std::memcpy(into.data() + i * sizeof(value), &value, sizeof(value));
      }
    });
  });
}

std::optional<OutOfRange>
binade::findOutOfRange(DType type, std::span<const std::byte> elements,
                       std::uint64_t start, const plan::IndexCheck &check) {
  std::optional<OutOfRange> found;
  withInteger(type, [&](auto zero) {
    std::size_t count = elements.size() / sizeof(zero);
    for (std::size_t i = start; i < count; ++i) {
      auto value = load<decltype(zero)>(elements, i);
      bool legal = (std::cmp_greater_equal(value, check.low) &&
                    std::cmp_less(value, check.high)) ||
                   (check.ignored && std::cmp_equal(value, *check.ignored));
      if (legal)
        continue;
      found = {i, static_cast<std::int64_t>(value)};
      return;
    }
  });
  return found;
}
