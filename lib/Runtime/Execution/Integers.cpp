//===- Integers.cpp - Type conversions and range checks -------------------===//

#include "Integers.h"
#include "binade/Container/FloatConversion.h"
#include <cstring>
#include <limits>
#include <utility>

using namespace binade;

/// Calls `function` with a zero of the C++ type of `type`; returns false if it
/// is not an integer type.
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

/// Calls `function` with the element as a float or double; returns false if
/// `type` is not a floating-point type.
template <typename Function>
static bool withFloat(DType type, std::span<const std::byte> elements,
                      std::size_t index, Function function) {
  switch (type) {
  case DType::F64:
    return function(load<double>(elements, index)), true;
  case DType::F32:
    return function(load<float>(elements, index)), true;
  case DType::F16:
    return function(f16ToFloat(load<std::uint16_t>(elements, index))), true;
  case DType::BF16:
    return function(bf16ToFloat(load<std::uint16_t>(elements, index))), true;
  default:
    return false;
  }
}

/// Returns the significand bits of a floating-point type; 0 for other types.
static int countDigits(DType type) {
  switch (type) {
  case DType::F64:
    return 53;
  case DType::F32:
    return 24;
  case DType::F16:
    return 11;
  case DType::BF16:
    return 8;
  default:
    return 0;
  }
}

bool binade::holdsAll(DType to, DType from) {
  bool result = to == from;
  if (int digits = countDigits(to)) {
    // A type with more digits also has at least the same range, except f16.
    result |=
        countDigits(from) > 0 && countDigits(from) < digits && to != DType::F16;
    withInteger(from, [&](auto narrow) {
      result = std::numeric_limits<decltype(narrow)>::digits <= digits;
    });
  }
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

bool binade::mayRepresent(DType to, DType from) {
  auto isInteger = [](DType type) { return withInteger(type, [](auto) {}); };
  return isInteger(to) && isInteger(from);
}

std::optional<Unrepresentable>
binade::findUnrepresentable(DType from, std::span<const std::byte> elements,
                            DType to) {
  std::optional<Unrepresentable> found;
  withInteger(to, [&](auto wanted) {
    withInteger(from, [&](auto given) {
      std::size_t count = elements.size() / sizeof(given);
      for (std::size_t i = 0; i < count && !found; ++i)
        if (auto value = load<decltype(given)>(elements, i);
            !std::in_range<decltype(wanted)>(value))
          found = {i, std::to_string(value)};
    });
  });
  return found;
}

/// Writes `value` as the floating-point type `to`, which can represent it.
template <typename T>
static void store(T value, DType to, std::span<std::byte> into,
                  std::size_t index) {
  auto write = [&](auto converted) {
    std::memcpy(into.data() + index * sizeof(converted), &converted,
                sizeof(converted));
  };
  if (to == DType::F64)
    write(static_cast<double>(value));
  else if (to == DType::F32)
    write(static_cast<float>(value));
  else if (to == DType::F16)
    write(floatToF16(static_cast<float>(value)));
  else if (to == DType::BF16)
    write(floatToBF16(static_cast<float>(value)));
}

void binade::widen(DType from, std::span<const std::byte> elements, DType to,
                   std::span<std::byte> into) {
  if (countDigits(to) > 0) {
    bool areIntegers = withInteger(from, [&](auto narrow) {
      std::size_t count = elements.size() / sizeof(narrow);
      for (std::size_t i = 0; i < count; ++i)
        store(load<decltype(narrow)>(elements, i), to, into, i);
    });
    std::size_t count = areIntegers ? 0 : elements.size() / byteSize(from);
    for (std::size_t i = 0; i < count; ++i)
      withFloat(from, elements, i,
                [&](auto value) { store(value, to, into, i); });
    return;
  }
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
