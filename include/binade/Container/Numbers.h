//===- Numbers.h - Numbers in messages, and which are legal -----*- C++ -*-===//

#ifndef BINADE_CONTAINER_NUMBERS_H
#define BINADE_CONTAINER_NUMBERS_H

#include <optional>
#include <string>
#include <string_view>

namespace binade {

/// The shortest text that reads back as `number`.
std::string formatNumber(double number);

/// The legal values of a setting. Bounds are inclusive; `below` is the
/// exclusive upper bound.
struct NumberRange {
  std::optional<double> min = {}, max = {}, below = {};

  /// What is wrong with `value` of `name`, or an empty string. Only finite
  /// numbers are legal.
  std::string explainViolation(std::string_view name, double value) const;
};

} // namespace binade

#endif // BINADE_CONTAINER_NUMBERS_H
