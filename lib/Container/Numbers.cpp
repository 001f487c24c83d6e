//===- Numbers.cpp - Number formatting and ranges -------------------------===//

#include "binade/Container/Numbers.h"
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

using namespace binade;

std::string binade::formatNumber(double number) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof(text), number);
  assert(error == std::errc() && "no double is longer");
  return std::string(text, end);
}

std::string binade::formatBytes(std::uint64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  if (unit == 0)
    return std::to_string(bytes) + " B";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, units[unit]);
  return text;
}

/// Parses `text` as a positive number; returns nothing for other texts.
static std::optional<double> parsePositive(std::string_view text) {
  double number;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number > 0))
    return std::nullopt;
  return number;
}

std::optional<std::uint64_t> binade::parseBytes(std::string_view text) {
  static constexpr std::pair<std::string_view, double> units[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
      {"TiB", 0x1p40}, {"kB", 1e3},     {"MB", 1e6},
      {"GB", 1e9},     {"TB", 1e12},    {"B", 1}};
  double factor = 1;
  for (auto [unit, size] : units)
    if (text.ends_with(unit)) {
      text.remove_suffix(unit.size());
      factor = size;
      break;
    }
  while (text.ends_with(' '))
    text.remove_suffix(1);
  std::optional<double> number = parsePositive(text);
  if (!number || !(*number * factor <= 0x1p50))
    return std::nullopt;
  return static_cast<std::uint64_t>(*number * factor);
}

std::optional<std::uint64_t> binade::parseBudget(std::string_view text,
                                                 std::uint64_t whole) {
  if (!text.ends_with('%'))
    return parseBytes(text);
  std::optional<double> share = parsePositive(text.substr(0, text.size() - 1));
  if (!share || *share > 100)
    return std::nullopt;
  return static_cast<std::uint64_t>(*share / 100 * static_cast<double>(whole));
}

std::string NumberRange::explainViolation(std::string_view name,
                                          double value) const {
  auto explain = [&](const std::string &expected) {
    return std::string(name) + " must be " + expected + ", got " +
           formatNumber(value);
  };
  if (!std::isfinite(value))
    return explain("finite");
  if (min && value < *min)
    return explain("at least " + formatNumber(*min));
  if (max && value > *max)
    return explain("at most " + formatNumber(*max));
  if (below && value >= *below)
    return explain("below " + formatNumber(*below));
  return "";
}
