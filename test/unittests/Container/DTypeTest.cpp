//===- DTypeTest.cpp - Element types and 16-bit conversions ---------------===//

#include "binade/Container/DType.h"
#include "binade/Container/FloatConversion.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

using namespace binade;

TEST(DType, NamesAndSizesMatchTheFormat) {
  struct {
    const char *name;
    std::size_t bytes;
    bool isFloat;
  } expected[] = {
      {"F64", 8, true},     {"F32", 4, true},     {"F16", 2, true},
      {"BF16", 2, true},    {"F8_E4M3", 1, true}, {"F8_E5M2", 1, true},
      {"F8_E8M0", 1, true}, {"I64", 8, false},    {"I32", 4, false},
      {"I16", 2, false},    {"I8", 1, false},     {"U64", 8, false},
      {"U32", 4, false},    {"U16", 2, false},    {"U8", 1, false},
      {"BOOL", 1, false}};
  ASSERT_EQ(std::size(expected), kNumDTypes);
  for (auto &row : expected) {
    std::optional<DType> type = parseDType(row.name);
    ASSERT_TRUE(type) << row.name;
    EXPECT_EQ(name(*type), row.name);
    EXPECT_EQ(byteSize(*type), row.bytes) << row.name;
    EXPECT_EQ(isFloat(*type), row.isFloat) << row.name;
    EXPECT_NE(knownDTypes().find(row.name), std::string_view::npos);
  }
}

TEST(DType, UnknownNamesHaveNoType) {
  for (const char *name : {"", "f32", "F32 ", "C64", "F4", "FLOAT"})
    EXPECT_FALSE(parseDType(name)) << name;
}

/// Returns the value of f16 bits after the definition of the format.
static double f16Value(unsigned bits) {
  int exponent = (bits >> 10) & 31;
  double fraction = bits & 0x3ff;
  double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : exponent == 0
                         ? std::ldexp(fraction, -24)
                         : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(FloatConversion, AllF16ValuesAreDecoded) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    float value = f16ToFloat(static_cast<std::uint16_t>(bits));
    double expected = f16Value(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(floatToF16(value), 0x7e00);
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    ASSERT_EQ(floatToF16(value), bits);
  }
}

// Checks the midpoint of each pair of neighbours, which rounds to even, and the
// values next to it, which round to the nearer neighbour.
TEST(FloatConversion, F16RoundsToNearestEvenBetweenAllNeighbours) {
  for (unsigned sign : {0u, 0x8000u})
    for (unsigned bits = 0; bits < 0x7c00; ++bits) {
      double low = f16Value(bits), high = f16Value(bits + 1);
      if (bits == 0x7bff)
        high = 65536; // The next value if the exponent were unbounded.
      double middle = (low + high) / 2;
      auto round = [&](double x) {
        return floatToF16(static_cast<float>(sign ? -x : x));
      };
      float inner = std::nextafter(static_cast<float>(middle), 0.0f);
      float outer = std::nextafter(static_cast<float>(middle), INFINITY);
      ASSERT_EQ(round(inner), sign | bits);
      ASSERT_EQ(round(outer), sign | (bits + 1));
      ASSERT_EQ(round(middle), sign | (bits + (bits & 1)));
    }
  EXPECT_EQ(floatToF16(INFINITY), 0x7c00);
  EXPECT_EQ(floatToF16(-std::numeric_limits<float>::max()), 0xfc00);
  EXPECT_EQ(floatToF16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(FloatConversion, BF16RoundsToNearestEvenBetweenAllNeighbours) {
  for (unsigned sign : {0u, 0x8000u})
    for (unsigned bits = 0; bits < 0x7f80; ++bits) {
      std::uint32_t low = (sign | bits) << 16;
      auto round = [](std::uint32_t u) {
        return floatToBF16(std::bit_cast<float>(u));
      };
      ASSERT_EQ(round(low), sign | bits);
      ASSERT_EQ(round(low + 0x7fff), sign | bits);
      ASSERT_EQ(round(low + 0x8000), sign | (bits + (bits & 1)));
      ASSERT_EQ(round(low + 0x8001), sign | (bits + 1));
    }
}

TEST(FloatConversion, BF16KeepsInfinityAndMakesNaNQuiet) {
  EXPECT_EQ(floatToBF16(INFINITY), 0x7f80);
  EXPECT_EQ(floatToBF16(-INFINITY), 0xff80);
  for (std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu})
    EXPECT_EQ(floatToBF16(std::bit_cast<float>(nan)), 0x7fc0);
}

TEST(FloatConversion, AllBF16ValuesAreTheUpperHalfOfAFloat) {
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(
                  bf16ToFloat(static_cast<std::uint16_t>(bits))),
              bits << 16);
}

/// Returns the magnitude of the bytes 0 to 0x7f by the definition of the
/// format, as if it had no infinity or NaN.
static double byteValue(unsigned code, unsigned fractionBits, int bias) {
  int exponent = static_cast<int>(code >> fractionBits);
  int fraction = static_cast<int>(code & ((1u << fractionBits) - 1));
  int significand = exponent ? (1 << fractionBits) + fraction : fraction;
  return std::ldexp(significand,
                    std::max(exponent, 1) - bias - int(fractionBits));
}

static void checkBytes(ByteFormat format, unsigned fractionBits, int bias,
                       double largest) {
  unsigned last = 0;
  for (unsigned sign : {0u, 0x80u})
    for (unsigned code = 0; byteValue(code, fractionBits, bias) <= largest;
         ++code) {
      auto round = [&](double x) {
        return floatToByte(static_cast<float>(sign ? -x : x), format);
      };
      // `high` is the next value, which may exceed the largest one.
      double low = byteValue(code, fractionBits, bias);
      double high = byteValue(code + 1, fractionBits, bias);
      double middle = (low + high) / 2;
      unsigned above = high <= largest ? sign | (code + 1) : 0x7f;
      ASSERT_EQ(round(low), sign | code);
      ASSERT_EQ(round(std::nextafter(float(middle), 0.0f)), sign | code);
      ASSERT_EQ(round(std::nextafter(float(middle), INFINITY)), above);
      ASSERT_EQ(round(middle), code & 1 ? above : sign | code);
      last = code;
    }
  EXPECT_EQ(byteValue(last, fractionBits, bias), largest);
  for (float beyond : {INFINITY, -INFINITY, NAN, -NAN, 1e30f, -1e30f})
    EXPECT_EQ(floatToByte(beyond, format), 0x7f);
  EXPECT_EQ(floatToByte(-0.0f, format), 0x80);
  EXPECT_EQ(floatToByte(-std::numeric_limits<float>::denorm_min(), format),
            0x80);
}

TEST(FloatConversion, BytesRoundToNearestEvenBetweenAllNeighbours) {
  checkBytes(kE4M3, 3, 7, 448);
  checkBytes(kE5M2, 2, 15, 57344);
}

// The expected bytes are those of ml_dtypes, except that overflow gives NaN,
// not infinity, and NaN has no sign.
TEST(FloatConversion, BytesOfKnownValuesAreEncoded) {
  struct {
    float value;
    unsigned e4m3, e5m2;
  } expected[] = {
      {1.0f, 0x38, 0x3c},     {-1.0625f, 0xb8, 0xbc},
      {1.1875f, 0x3a, 0x3d},  {17, 0x58, 0x4c},
      {0x1p-10f, 0x00, 0x14}, {0x1.8p-9f, 0x02, 0x1a},
      {464, 0x7e, 0x5f},      {464.01f, 0x7f, 0x5f},
      {0x1p-17f, 0x00, 0x00}, {0x1.8p-16f, 0x00, 0x02},
      {57344.0f, 0x7f, 0x7b}, {61439.0f, 0x7f, 0x7b},
      {61440.0f, 0x7f, 0x7f}, {-53248.0f, 0x7f, 0xfa},
  };
  for (auto &row : expected) {
    EXPECT_EQ(floatToByte(row.value, kE4M3), row.e4m3) << row.value;
    EXPECT_EQ(floatToByte(row.value, kE5M2), row.e5m2) << row.value;
  }
}
