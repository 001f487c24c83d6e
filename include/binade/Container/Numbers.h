//===- Numbers.h - Numbers in messages, and which are legal -----*- C++ -*-===//

#ifndef BINADE_CONTAINER_NUMBERS_H
#define BINADE_CONTAINER_NUMBERS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace binade {

/// The shortest text that reads back as `number`.
std::string formatNumber(double number);

/// "1.5 MiB".
std::string formatBytes(std::uint64_t bytes);
/// `24GiB`, `512MiB`, `8e9`: bytes. None for what is no size, or is 0.
std::optional<std::uint64_t> parseBytes(std::string_view text);
/// A size, or `60%` of `whole`.
std::optional<std::uint64_t> parseBudget(std::string_view text,
                                         std::uint64_t whole);

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
