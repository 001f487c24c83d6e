//===- Numbers.h - Number formatting and ranges -----------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_NUMBERS_H
#define BINADE_CONTAINER_NUMBERS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace binade {

/// Returns the shortest decimal text that is read back as `number`.
std::string formatNumber(double number);

/// Returns a size as text, such as "1.5 MiB".
std::string formatBytes(std::uint64_t bytes);
/// Parses a positive size in bytes, such as `24GiB`, `512MiB` or `8e9`.
std::optional<std::uint64_t> parseBytes(std::string_view text);
/// Parses a size, or a share of `whole`, such as `60%`.
std::optional<std::uint64_t> parseBudget(std::string_view text,
                                         std::uint64_t whole);

/// The allowed values of a setting. `min` and `max` are inclusive bounds,
/// `below` is an exclusive upper bound.
struct NumberRange {
  std::optional<double> min = {}, max = {}, below = {};

  /// Returns why `value` is not allowed for the setting `name`; empty if it is.
  /// Values have to be finite.
  std::string explainViolation(std::string_view name, double value) const;
};

} // namespace binade

#endif // BINADE_CONTAINER_NUMBERS_H
