//===- ExpandCastsTest.cpp - Casts from and to narrow floats --------------===//
//
// The expected bits are those of APFloat, except that the generated integer
// code turns each NaN into the quiet NaN without payload.
//
//===----------------------------------------------------------------------===//

#include "Sweep.h"
#include "llvm/ADT/APFloat.h"
#include "gtest/gtest.h"

#include <array>
#include <bit>
#include <cmath>
#include <random>

using namespace binade::test;
using llvm::APFloat;
using llvm::APInt;

static APFloat convert(APFloat value, const llvm::fltSemantics &to) {
  bool lossy;
  value.convert(to, APFloat::rmNearestTiesToEven, &lossy);
  return value;
}

static uint16_t toBits(const APFloat &value, const llvm::fltSemantics &to) {
  return convert(value, to).bitcastToAPInt().getZExtValue();
}

static uint16_t toBF16(const APFloat &value) {
  if (value.isNaN())
    return value.isNegative() ? 0xffc0 : 0x7fc0;
  return toBits(value, APFloat::BFloat());
}

static APFloat fromF32(uint32_t pattern) {
  return APFloat(std::bit_cast<float>(pattern));
}

/// Converts with APFloat; a NaN becomes 0x7f, whatever its sign.
static uint8_t toByte(uint32_t pattern, const llvm::fltSemantics &to) {
  APFloat code = convert(fromF32(pattern), to);
  return code.isNaN() ? 0x7f : code.bitcastToAPInt().getZExtValue();
}

template <typename Code>
static void expectEqual(const char *to, Code (*expected)(uint32_t),
                        Sweep sweep) {
  Kernel kernel("%r = arith.truncf %x : $x to $r", "f32", to);
  uint32_t at = 0;
  EXPECT_EQ(countMismatches(kernel, expected, sweep, at), 0u)
      << "f32 to " << to << ", first at 0x" << std::hex << at;
}

static void sweepCasts(Sweep sweep) {
  expectEqual<uint16_t>(
      "bf16", [](uint32_t x) { return toBF16(fromF32(x)); }, sweep);
  // f16 is not expanded; the hardware's conversion is used.
  expectEqual<uint16_t>(
      "f16", [](uint32_t x) { return toBits(fromF32(x), APFloat::IEEEhalf()); },
      sweep);
  expectEqual<uint8_t>(
      "f8E4M3FN", [](uint32_t x) { return toByte(x, APFloat::Float8E4M3FN()); },
      sweep);
  expectEqual<uint8_t>(
      "f8E5M2", [](uint32_t x) { return toByte(x, APFloat::Float8E5M2()); },
      sweep);
}

TEST(ExpandCasts, RoundsF32) { sweepCasts(Sweep::Part); }

TEST(ExpandCasts, RoundsAllOfF32Nightly) { sweepCasts(Sweep::All); }

TEST(ExpandCasts, HasTheSameBitsForAnyWidthAndCPU) {
  for (auto [to, bytes] : {std::pair("bf16", 2), std::pair("f16", 2),
                           std::pair("f8E4M3FN", 1), std::pair("f8E5M2", 1)}) {
    const char *op = "%r = arith.truncf %x : $x to $r";
    Kernel first(op, "f32", to);
    for (const Variant &variant : allVariants()) {
      Kernel other(op, "f32", to, variant);
      uint32_t at = 0;
      EXPECT_EQ(countDifferences(first, other, 0, bytes, at), 0u)
          << "<" << variant.shape << "f32> to " << to << " on " << variant.cpu
          << " at 0x" << std::hex << at;
    }
  }
}

/// Returns each value of an 8-bit format, each midpoint of two of them, and
/// their neighbors, of both signs; and values that exceed all of them.
static std::vector<uint32_t> findBoundaries(const llvm::fltSemantics &to) {
  std::vector<float> points = {INFINITY, NAN};
  float before = 0;
  for (unsigned code = 0; code < 0x80; ++code) {
    APFloat number(to, APInt(8, code));
    if (!number.isFinite())
      continue;
    float value = convert(number, APFloat::IEEEsingle()).convertToFloat();
    points.insert(points.end(), {value, (before + value) / 2});
    before = value;
  }
  float last = before - points[points.size() - 4]; // The last spacing.
  points.insert(points.end(), {before + last / 2, before + last});
  std::vector<uint32_t> patterns;
  for (float point : points)
    for (uint32_t sign : {0u, 0x80000000u})
      for (int step : {-1, 0, 1})
        patterns.push_back((std::bit_cast<uint32_t>(point) + step) ^ sign);
  return patterns;
}

TEST(ExpandCasts, RoundsToBytesAtAllBoundaries) {
  for (auto [name, to] : {std::pair("f8E4M3FN", &APFloat::Float8E4M3FN()),
                          std::pair("f8E5M2", &APFloat::Float8E5M2())})
    for (const Variant &variant : allVariants()) {
      Kernel kernel("%r = arith.truncf %x : $x to $r", "f32", name, variant);
      std::vector<uint32_t> x = findBoundaries(*to);
      ASSERT_GT(x.size(), 1000u);
      x.resize((x.size() / Kernel::size + 1) * Kernel::size);
      for (size_t begin = 0; begin < x.size(); begin += Kernel::size) {
        std::array<uint8_t, Kernel::size> r;
        kernel(&x[begin], &x[begin], r.data());
        for (int i = 0; i < Kernel::size; ++i)
          EXPECT_EQ(r[i], toByte(x[begin + i], *to))
              << name << " of 0x" << std::hex << x[begin + i];
      }
    }
}

/// Checks that all 2^16 values of a format are widened exactly.
template <typename Wide>
static void expectExactExtension(const char *from, const char *to,
                                 const llvm::fltSemantics &semantics,
                                 const Variant &variant = {}) {
  Kernel kernel("%r = arith.extf %x : $x to $r", from, to, variant);
  std::array<uint16_t, Kernel::size> x;
  std::array<Wide, Kernel::size> r;
  for (uint32_t begin = 0; begin < 0x10000; begin += Kernel::size) {
    for (int i = 0; i < Kernel::size; ++i)
      x[i] = begin + i;
    kernel(x.data(), x.data(), r.data());
    for (int i = 0; i < Kernel::size; ++i) {
      APFloat value(semantics, APInt(16, x[i]));
      if (value.isNaN()) {
        EXPECT_TRUE(std::isnan(r[i])) << std::hex << x[i];
        EXPECT_EQ(value.isNegative(), std::signbit(r[i])) << std::hex << x[i];
        continue;
      }
      double exact = convert(value, APFloat::IEEEdouble()).convertToDouble();
      EXPECT_EQ(std::bit_cast<uint64_t>(double(r[i])),
                std::bit_cast<uint64_t>(exact))
          << std::hex << x[i];
    }
  }
}

TEST(ExpandCasts, ExtendsExactly) {
  for (const Variant &variant : allVariants()) {
    expectExactExtension<float>("bf16", "f32", APFloat::BFloat(), variant);
    expectExactExtension<double>("bf16", "f64", APFloat::BFloat(), variant);
    expectExactExtension<float>("f16", "f32", APFloat::IEEEhalf(), variant);
    expectExactExtension<double>("f16", "f64", APFloat::IEEEhalf(), variant);
  }
}

/// Checks that all 256 values of a format are widened exactly. NaN may
/// have either sign.
template <typename Wide>
static void expectExactBytes(const char *from, const char *to,
                             const llvm::fltSemantics &semantics,
                             const Variant &variant) {
  Kernel kernel("%r = arith.extf %x : $x to $r", from, to, variant);
  std::array<uint8_t, Kernel::size> x;
  std::array<Wide, Kernel::size> r;
  for (int i = 0; i < Kernel::size; ++i)
    x[i] = i;
  kernel(x.data(), x.data(), r.data());
  for (int i = 0; i < Kernel::size; ++i) {
    APFloat value(semantics, APInt(8, x[i]));
    double exact = convert(value, APFloat::IEEEdouble()).convertToDouble();
    if (value.isNaN())
      EXPECT_TRUE(std::isnan(r[i])) << std::hex << int(x[i]);
    else
      EXPECT_EQ(std::bit_cast<uint64_t>(double(r[i])),
                std::bit_cast<uint64_t>(exact))
          << std::hex << int(x[i]);
  }
}

TEST(ExpandCasts, ExtendsBytesExactly) {
  for (const Variant &variant : allVariants()) {
    expectExactBytes<float>("f8E4M3FN", "f32", APFloat::Float8E4M3FN(),
                            variant);
    expectExactBytes<double>("f8E4M3FN", "f64", APFloat::Float8E4M3FN(),
                             variant);
    expectExactBytes<float>("f8E5M2", "f32", APFloat::Float8E5M2(), variant);
    expectExactBytes<double>("f8E5M2", "f64", APFloat::Float8E5M2(), variant);
  }
}

/// Returns f64 values that rounding twice gets wrong, and others: each value
/// of the format, the midpoint between it and the next one, and neighbours of
/// both, one f64 away and about one f32 away.
static std::vector<double> listHardInputs(const llvm::fltSemantics &to) {
  std::vector<double> values;
  unsigned width = APFloat::semanticsSizeInBits(to);
  uint32_t count = 1u << width;
  for (uint32_t pattern = 0; pattern < count; ++pattern) {
    APFloat low(to, APInt(width, pattern)),
        high(to, APInt(width, (pattern + 1) % count));
    double value = convert(low, APFloat::IEEEdouble()).convertToDouble();
    double next = convert(high, APFloat::IEEEdouble()).convertToDouble();
    for (double base : {value, value + (next - value) / 2}) {
      auto u = std::bit_cast<uint64_t>(base);
      for (int64_t offset : {0ll, 1ll, -1ll, 1ll << 27, -(1ll << 27), 1ll << 28,
                             -(1ll << 28), 3ll << 27})
        values.push_back(std::bit_cast<double>(u + offset));
    }
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000000; ++i) {
    uint64_t bits = random();
    // Random bits, then random values with exponents near the format's range.
    values.push_back(std::bit_cast<double>(bits));
    uint64_t exponent = 1023 - 160 + (bits >> 52) % 320;
    values.push_back(
        std::bit_cast<double>((bits & ~(0x7ffull << 52)) | exponent << 52));
  }
  return values;
}

template <typename Code>
static void expectRoundedOnce(const char *to,
                              const llvm::fltSemantics &semantics,
                              const Variant &variant) {
  Kernel kernel("%r = arith.truncf %x : $x to $r", "f64", to, variant);
  std::vector<double> values = listHardInputs(semantics);
  values.resize(values.size() / Kernel::size * Kernel::size);
  std::array<Code, Kernel::size> r;
  constexpr unsigned width = 8 * sizeof(Code);
  for (size_t begin = 0; begin < values.size(); begin += Kernel::size) {
    kernel(&values[begin], &values[begin], r.data());
    for (int i = 0; i < Kernel::size; ++i) {
      APFloat value(values[begin + i]);
      APFloat got(semantics, APInt(width, r[i]));
      if (width == 8 && convert(value, semantics).isNaN())
        ASSERT_EQ(r[i], 0x7f);
      else if (value.isNaN())
        ASSERT_TRUE(got.isNaN() && got.isNegative() == value.isNegative());
      else
        ASSERT_EQ(r[i], toBits(value, semantics))
            << testing::PrintToString(values[begin + i]);
    }
  }
}

TEST(ExpandCasts, RoundsF64Once) {
  for (const Variant &variant :
       {Variant{"8x", ""}, Variant{"", ""}, Variant{"8x", "haswell"}}) {
    expectRoundedOnce<uint16_t>("bf16", APFloat::BFloat(), variant);
    expectRoundedOnce<uint16_t>("f16", APFloat::IEEEhalf(), variant);
    expectRoundedOnce<uint8_t>("f8E4M3FN", APFloat::Float8E4M3FN(), variant);
    expectRoundedOnce<uint8_t>("f8E5M2", APFloat::Float8E5M2(), variant);
  }
}
