//===- Numbers.cpp - Numbers in messages, and which are legal -------------===//

#include "binade/Container/Numbers.h"
#include <cassert>
#include <charconv>
#include <cmath>

using namespace binade;

std::string binade::formatNumber(double number) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof(text), number);
  assert(error == std::errc() && "no double is longer");
  return std::string(text, end);
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
