//===- FloatConversion.h - Conversions to narrow formats --------*- C++ -*-===//
// Scalar conversions for host code in integer arithmetic, whose results depend
// neither on the machine nor on its flush-to-zero mode. NaN becomes the
// canonical quiet NaN (0x7fc0, 0x7e00).
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_FLOATCONVERSION_H
#define BINADE_CONTAINER_FLOATCONVERSION_H

#include <bit>
#include <cstdint>

namespace binade {

/// Rounds to nearest even; values that overflow become infinity.
constexpr std::uint16_t floatToBF16(float value) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7fffffff) > 0x7f800000)
    return 0x7fc0;
  return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

constexpr float bf16ToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Rounds to nearest even, including subnormal results. Magnitudes of 65520 and
/// more become infinity.
constexpr std::uint16_t floatToF16(float value) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return 0x7e00;
  if (magnitude >= 0x477ff000) // 65520, the tie between 65504 and 2^16.
    return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude >= 0x38800000) { // 2^-14, the smallest normal number.
    std::uint32_t rebiased = magnitude - (112u << 23);
    return static_cast<std::uint16_t>(
        sign | ((rebiased + 0xfff + ((rebiased >> 13) & 1)) >> 13));
  }
  // The result is a multiple of 2^-24: shift the significand and round.
  std::uint32_t exponent = magnitude >> 23;
  if (exponent < 102) // Below 2^-25, half of the smallest subnormal number.
    return static_cast<std::uint16_t>(sign);
  std::uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  std::uint32_t shift = 126 - exponent, quotient = significand >> shift;
  std::uint32_t rest = significand & ((1u << shift) - 1);
  std::uint32_t half = 1u << (shift - 1);
  quotient += rest > half || (rest == half && (quotient & 1));
  return static_cast<std::uint16_t>(sign | quotient);
}

constexpr float f16ToFloat(std::uint16_t bits) {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  std::uint32_t exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
  if (exponent == 31) // Infinity and NaN; the payload stays.
    return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) |
                                (fraction << 13));
  if (fraction == 0)
    return std::bit_cast<float>(sign);
  // fraction * 2^-24, normalised: every subnormal f16 is a normal f32.
  std::uint32_t top =
      31 - static_cast<std::uint32_t>(std::countl_zero(fraction));
  return std::bit_cast<float>(sign | ((top + 103) << 23) |
                              ((fraction << (23 - top)) & 0x7fffff));
}

/// An 8-bit format: its fraction bits, exponent bias, and the bits of its
/// largest value.
struct ByteFormat {
  unsigned fraction, bias, largest;
};
inline constexpr ByteFormat kE4M3 = {3, 7, 0x7e}, kE5M2 = {2, 15, 0x7b};

/// Rounds to nearest even. Magnitudes beyond the largest value become NaN
/// (0x7f).
constexpr std::uint8_t floatToByte(float value, ByteFormat format) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = (u >> 24) & 0x80, magnitude = u & 0x7fffffff;
  // Subnormal results have the exponent of the smallest normal value.
  std::uint32_t least = 128 - format.bias, exponent = magnitude >> 23;
  std::uint32_t base = exponent < least ? least : exponent;
  std::uint32_t shift = 23 - format.fraction + (base - exponent);
  if (shift > 25)
    return static_cast<std::uint8_t>(sign);
  std::uint64_t significand = (magnitude & 0x7fffff) | 0x800000;
  std::uint64_t half = std::uint64_t(1) << (shift - 1);
  std::uint64_t quotient = significand >> shift;
  std::uint64_t rest = significand & ((std::uint64_t(1) << shift) - 1);
  quotient += rest > half || (rest == half && (quotient & 1));
  // The leading bit of a normal value adds 1 to the exponent.
  std::uint64_t code =
      (std::uint64_t(base - least) << format.fraction) + quotient;
  if (magnitude > 0x7f800000 || code > format.largest)
    return 0x7f;
  return static_cast<std::uint8_t>(sign | code);
}

} // namespace binade

#endif // BINADE_CONTAINER_FLOATCONVERSION_H
