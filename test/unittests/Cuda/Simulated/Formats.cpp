//===- Formats.cpp - Encoding of values of the simulated device -----------===//

#include "Formats.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

using namespace binade::cuda::lt;
using namespace simulated;

namespace {
struct Format {
  int bytes, exponentBits, fractionBits;
  double largest;
  bool hasInfinity;
};
} // namespace

static const Format &getFormat(int type) {
  static const std::map<int, Format> formats = {
      {type::F32, {4, 8, 23, 0x1.fffffep127, true}},
      {type::F16, {2, 5, 10, 65504, true}},
      {type::BF16, {2, 8, 7, 0x1.fep127, true}},
      {type::E4M3, {1, 4, 3, 448, false}},
      {type::E5M2, {1, 5, 2, 57344, true}}};
  return formats.at(type);
}

int simulated::getByteSize(int type) { return getFormat(type).bytes; }

bool simulated::isFp8(int type) {
  return type == type::E4M3 || type == type::E5M2;
}

double simulated::decode(int type, const char *from) {
  const Format &format = getFormat(type);
  std::uint32_t code = 0;
  std::memcpy(&code, from, static_cast<std::size_t>(format.bytes));
  std::uint32_t fraction = code & ((1u << format.fractionBits) - 1);
  auto exponents = (1u << format.exponentBits) - 1;
  std::uint32_t exponent = code >> format.fractionBits & exponents;
  bool isNegative = code >> (format.fractionBits + format.exponentBits) & 1;
  int bias = (1 << (format.exponentBits - 1)) - 1;
  double value;
  if (exponent == exponents && format.hasInfinity)
    value = fraction ? std::nan("") : HUGE_VAL;
  else if (exponent == exponents && fraction == 7) // E4M3
    value = std::nan("");
  else if (exponent == 0)
    value = std::ldexp(fraction, 1 - bias - format.fractionBits);
  else
    value = std::ldexp(fraction + (1u << format.fractionBits),
                       static_cast<int>(exponent) - bias - format.fractionBits);
  return isNegative ? -value : value;
}

static double roundTo(int type, double value) {
  const Format &format = getFormat(type);
  if (value == 0 || !std::isfinite(value))
    return value;
  int smallest = 2 - (1 << (format.exponentBits - 1));
  int step = std::max(std::ilogb(value), smallest) - format.fractionBits;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
  if (std::fabs(rounded) <= format.largest)
    return rounded;
  return std::copysign(isFp8(type) ? format.largest : HUGE_VAL, value);
}

void simulated::encode(int type, double value, char *to) {
  const Format &format = getFormat(type);
  int bits = 8 * format.bytes;
  std::uint32_t code;
  double magnitude = std::fabs(roundTo(type, value));
  auto exponents = (1u << format.exponentBits) - 1;
  int bias = (1 << (format.exponentBits - 1)) - 1;
  if (std::isnan(value))
    code = (1u << (bits - 1)) - 1;
  else if (std::isinf(magnitude))
    code = exponents << format.fractionBits;
  else {
    // Encoded magnitudes count up from 0, subnormals first.
    int exponent =
        magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
    code = static_cast<std::uint32_t>(
        std::ldexp(magnitude, format.fractionBits - exponent) +
        std::ldexp(exponent + bias - 1, format.fractionBits));
  }
  code |= std::uint32_t(std::signbit(value)) << (bits - 1);
  std::memcpy(to, &code, static_cast<std::size_t>(format.bytes));
}
