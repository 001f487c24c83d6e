//===- Codes.h - Values exact in a format, and their bytes ------*- C++ -*-===//
//-*-===//

#ifndef BINADE_TEST_CUDA_CODES_H
#define BINADE_TEST_CUDA_CODES_H

#include "binade/Container/DType.h"
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace binade::test {

struct FloatBits {
  int exponent, fraction;
  int getBias() const { return (1 << (exponent - 1)) - 1; }
};

inline FloatBits bitsOf(DType type) {
  switch (type) {
  case DType::F16:
    return {5, 10};
  case DType::BF16:
    return {8, 7};
  case DType::F8_E4M3:
    return {4, 3};
  case DType::F8_E5M2:
    return {5, 2};
  default:
    return {8, 23};
  }
}

/// Values and their encoding in some format.
struct Codes {
  std::vector<double> values;
  std::string bytes;
};

/// Returns `count` values +-(1 + i/4) 2^e, which every format represents
/// exactly. Every 17th is 0, and every 13th is the format's smallest subnormal
/// value; these have a sign, too.
inline Codes makeCodes(DType type, std::size_t count, unsigned seed) {
  FloatBits bits = bitsOf(type);
  Codes codes;
  for (std::size_t index = 0; index < count; ++index) {
    seed = seed * 1664525 + 1013904223;
    unsigned quarter = seed >> 30, sign = seed >> 29 & 1;
    int exponent = static_cast<int>(seed >> 16 & 7) - 4;
    std::uint32_t code = static_cast<std::uint32_t>(exponent + bits.getBias())
                         << bits.fraction;
    code |= quarter << (bits.fraction - 2);
    double value = std::ldexp(4 + quarter, exponent - 2);
    if (index % 17 == 5) {
      code = 0;
      value = 0;
    } else if (index % 13 == 7) {
      code = 1;
      value = std::ldexp(1, 1 - bits.getBias() - bits.fraction);
    }
    code |= sign << (bits.exponent + bits.fraction);
    codes.values.push_back(sign ? -value : value);
    codes.bytes.append(reinterpret_cast<const char *>(&code), byteSize(type));
  }
  return codes;
}

/// Decodes the bytes of finite values.
inline std::vector<double> readCodes(DType type, const std::string &bytes) {
  FloatBits bits = bitsOf(type);
  std::vector<double> values;
  for (std::size_t at = 0; at < bytes.size(); at += byteSize(type)) {
    std::uint32_t code = 0;
    std::memcpy(&code, bytes.data() + at, byteSize(type));
    std::uint32_t fraction = code & ((1u << bits.fraction) - 1);
    std::uint32_t exponent =
        code >> bits.fraction & ((1u << bits.exponent) - 1);
    double value = exponent ? 1 + std::ldexp(fraction, -bits.fraction)
                            : std::ldexp(fraction, 1 - bits.fraction);
    value = std::ldexp(value, static_cast<int>(exponent) - bits.getBias());
    bool isNegative = code >> (bits.exponent + bits.fraction) & 1;
    values.push_back(isNegative ? -value : value);
  }
  return values;
}

} // namespace binade::test

#endif // BINADE_TEST_CUDA_CODES_H
