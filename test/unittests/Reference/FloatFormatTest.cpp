//===- FloatFormatTest.cpp - Rounding against APFloat ---------------------===//

#include "binade/Reference/FloatFormat.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir::binade;
using llvm::APFloat;
using llvm::APInt;

namespace {
struct NamedSemantics {
  const char *name;
  const llvm::fltSemantics &semantics;
};

class EveryFormat : public ::testing::TestWithParam<NamedSemantics> {
protected:
  const llvm::fltSemantics &semantics = GetParam().semantics;
  FloatFormat format{semantics};

  /// Converts `x` to the format by APFloat.
  double convert(double x) {
    APFloat number(x);
    bool inexact;
    number.convert(semantics, APFloat::rmNearestTiesToEven, &inexact);
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                   &inexact);
    return number.convertToDouble();
  }
  /// All NaNs are equal; 0 and -0 differ.
  static bool isSame(double x, double y) {
    return (std::isnan(x) && std::isnan(y)) ||
           (x == y && std::signbit(x) == std::signbit(y));
  }
  /// Excludes values that the format cannot represent: NaN in formats without
  /// NaN, zero and negative values in formats of powers of two.
  bool isInDomain(double x) {
    if (!format.hasZero)
      return x >= format.smallest && x <= format.largest;
    return std::isfinite(x) || format.hasNaN;
  }
};

/// Formats that are narrow enough to test all values.
class NarrowFormat : public EveryFormat {};
} // namespace

TEST_P(EveryFormat, RoundsLikeAPFloat) {
  std::mt19937_64 generator(7);
  // Random bits are mostly out of range, so half of the values get exponents
  // near those of the format.
  int low = format.minExponent - format.precision - 4;
  int high = std::ilogb(format.largest) + 4;
  std::uniform_int_distribution<int> exponent(low, high);
  for (int i = 0; i < 200'000; ++i) {
    double x = llvm::bit_cast<double>(generator());
    if (i % 2)
      x = std::copysign(std::ldexp(1.0 + std::ldexp(generator() >> 12, -52),
                                   exponent(generator)),
                        x);
    if (!isInDomain(x))
      continue;
    ASSERT_TRUE(isSame(format.round(x), convert(x)))
        << x << " rounds to " << format.round(x) << ", APFloat: " << convert(x);
  }
}

TEST_P(NarrowFormat, TiesGoToEven) {
  for (uint64_t bits = 0; bits + 1 < uint64_t(1) << format.width; ++bits) {
    double x = format.decode(bits), next = format.decode(bits + 1);
    double tie = 0.5 * (x + next);
    if (!std::isfinite(tie) || !isInDomain(tie))
      continue;
    for (double number :
         {tie, std::nextafter(tie, x), std::nextafter(tie, next)})
      ASSERT_TRUE(isSame(format.round(number), convert(number)))
          << number << " rounds to " << format.round(number)
          << ", APFloat: " << convert(number);
  }
}

TEST_P(NarrowFormat, RoundsItsOwnValuesToThemselves) {
  for (uint64_t bits = 0; bits < uint64_t(1) << format.width; ++bits) {
    APFloat number(semantics, APInt(format.width, bits));
    double x = format.decode(bits);
    ASSERT_EQ(std::isnan(x), number.isNaN());
    ASSERT_TRUE(isSame(format.round(x), x)) << x;
    if (!number.isNaN()) {
      ASSERT_EQ(format.encode(x), bits);
    }
  }
}

TEST_P(EveryFormat, SaturatesAtTheLargestValue) {
  double largest = format.largest;
  double beyond = 2.0 * largest; // Infinite for f64.
  EXPECT_EQ(format.round(beyond, /*saturate=*/true), largest);
  EXPECT_EQ(format.round(INFINITY, /*saturate=*/true), largest);
  if (format.hasSign) {
    EXPECT_EQ(format.round(-beyond, /*saturate=*/true), -largest);
  }
  if (format.hasNaN) {
    EXPECT_TRUE(std::isnan(format.round(NAN, /*saturate=*/true)));
  }
  double overflow = format.round(beyond);
  if (format.hasInf)
    EXPECT_EQ(overflow, INFINITY);
  else if (format.hasNaN)
    EXPECT_TRUE(std::isnan(overflow));
  else
    EXPECT_EQ(overflow, largest);
}

static std::string
getName(const ::testing::TestParamInfo<NamedSemantics> &info) {
  return info.param.name;
}

static const auto kNarrowFormats = ::testing::Values(
    NamedSemantics{"bf16", APFloat::BFloat()},
    NamedSemantics{"f16", APFloat::IEEEhalf()},
    NamedSemantics{"f8E4M3FN", APFloat::Float8E4M3FN()},
    NamedSemantics{"f8E5M2", APFloat::Float8E5M2()},
    NamedSemantics{"f8E4M3", APFloat::Float8E4M3()},
    NamedSemantics{"f8E3M4", APFloat::Float8E3M4()},
    NamedSemantics{"f8E4M3FNUZ", APFloat::Float8E4M3FNUZ()},
    NamedSemantics{"f8E5M2FNUZ", APFloat::Float8E5M2FNUZ()},
    NamedSemantics{"f8E4M3B11FNUZ", APFloat::Float8E4M3B11FNUZ()},
    NamedSemantics{"f8E8M0FNU", APFloat::Float8E8M0FNU()},
    NamedSemantics{"f6E2M3FN", APFloat::Float6E2M3FN()},
    NamedSemantics{"f6E3M2FN", APFloat::Float6E3M2FN()},
    NamedSemantics{"f4E2M1FN", APFloat::Float4E2M1FN()});
INSTANTIATE_TEST_SUITE_P(Narrow, EveryFormat, kNarrowFormats, getName);
INSTANTIATE_TEST_SUITE_P(Narrow, NarrowFormat, kNarrowFormats, getName);
INSTANTIATE_TEST_SUITE_P(
    Wide, EveryFormat,
    ::testing::Values(NamedSemantics{"f64", APFloat::IEEEdouble()},
                      NamedSemantics{"f32", APFloat::IEEEsingle()},
                      NamedSemantics{"tf32", APFloat::FloatTF32()}),
    getName);

TEST(FloatFormat, NaNIsCanonical) {
  EXPECT_EQ(FloatFormat(APFloat::BFloat()).encode(NAN), 0x7fc0u);
  EXPECT_EQ(FloatFormat(APFloat::IEEEhalf()).encode(-NAN), 0x7e00u);
  EXPECT_EQ(FloatFormat(APFloat::Float8E4M3FN()).encode(-NAN), 0x7fu);
  EXPECT_EQ(FloatFormat(APFloat::Float8E5M2()).encode(NAN), 0x7fu);
  EXPECT_EQ(FloatFormat(APFloat::Float8E8M0FNU()).encode(NAN), 0xffu);
}

TEST(FloatFormat, RoundsF64Once) {
  // 1 + 2^-11 + 2^-40 is above the tie of f16; rounded to f32 first, it is the
  // tie and goes down.
  double x = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(FloatFormat(APFloat::IEEEhalf()).round(x), 1.0 + 0x1p-10);
}

TEST(FloatFormat, SpacingGrowsWithTheExponent) {
  FloatFormat e4m3(APFloat::Float8E4M3FN());
  EXPECT_EQ(e4m3.getSpacing(1.0), 0.125);
  EXPECT_EQ(e4m3.getSpacing(-300.0), 32.0);
  EXPECT_EQ(e4m3.getSpacing(0.0), 0x1p-9);
  EXPECT_EQ(e4m3.getRoundoff(), 0x1p-4);
}
