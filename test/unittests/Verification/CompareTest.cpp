//===- CompareTest.cpp - Comparison by bits and within bounds -------------===//

#include "../../../lib/Verification/Compare.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir::binade;
using ::binade::DType;

namespace {

/// Returns the bytes of elements of any type.
template <typename T> Bytes store(std::initializer_list<T> elements) {
  Bytes bytes(elements.size() * sizeof(T));
  std::memcpy(bytes.data(), std::data(elements), bytes.size());
  return bytes;
}

using Words = std::initializer_list<uint16_t>;
using Codes = std::initializer_list<uint8_t>;

template <typename T> double countSteps(DType dtype, T left, T right) {
  return countUlps(dtype, store<T>({left}), store<T>({right}), 0);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Compare, NeighborsAreOneUlpApart) {
  EXPECT_EQ(countSteps(DType::F32, 1.0f, std::nextafter(1.0f, 2.0f)), 1);
  EXPECT_EQ(countSteps(DType::F64, 1.0, std::nextafter(1.0, 0.0)), 1);
  // 448, the largest value of E4M3, and 416.
  EXPECT_EQ(countSteps<uint8_t>(DType::F8_E4M3, 0x7E, 0x7D), 1);
}

TEST(Compare, UlpsCountTheValuesOfTheFormat) {
  // A binade of bf16 has 2^7 values, of f16 2^10.
  EXPECT_EQ(countSteps<uint16_t>(DType::BF16, 0x3F80, 0x4000), 128);
  EXPECT_EQ(countSteps<uint16_t>(DType::F16, 0x3C00, 0x4000), 1024);
  EXPECT_EQ(countSteps<int8_t>(DType::I8, -100, 100), 200);
  EXPECT_EQ(countSteps<uint8_t>(DType::U8, 0, 255), 255);
}

TEST(Compare, BothZerosAreOneValue) {
  EXPECT_EQ(countSteps(DType::F32, 0.0f, -0.0f), 0);
  float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(countSteps(DType::F32, -least, least), 2);
}

TEST(Compare, NaNHasNoDistance) {
  EXPECT_TRUE(std::isnan(countSteps(DType::F32, kNan, 1.0f)));
  EXPECT_TRUE(std::isnan(countSteps(DType::F32, 1.0f, kNan)));
}

TEST(Compare, SpacingDependsOnTheBinade) {
  EXPECT_EQ(getSpacing(DType::F32, 1), std::ldexp(1, -23));
  EXPECT_EQ(getSpacing(DType::BF16, 1), std::ldexp(1, -7));
  EXPECT_EQ(getSpacing(DType::BF16, -300), 2);
  EXPECT_EQ(getSpacing(DType::F8_E4M3, 448), 32);
  // The spacing of subnormal values.
  EXPECT_EQ(getSpacing(DType::F16, 0), std::ldexp(1, -24));
}

TEST(Compare, BoundsAreRoundedOutward) {
  // 1/3 is 0x3EAAAAAB in f32; in bf16 it lies between these two.
  EXPECT_EQ(roundToward(DType::BF16, {1.0 / 3}, /*up=*/false),
            store<uint16_t>(Words{0x3EAA}));
  EXPECT_EQ(roundToward(DType::BF16, {1.0 / 3}, /*up=*/true),
            store<uint16_t>(Words{0x3EAB}));
  EXPECT_EQ(roundToward(DType::BF16, {-1.0 / 3}, /*up=*/true),
            store<uint16_t>(Words{0xBEAA}));
  EXPECT_EQ(roundToward(DType::BF16, {0.5, 2}, /*up=*/true),
            store<uint16_t>(Words{0x3F00, 0x4000}));
}

TEST(Compare, AboveTheLargestValueIsInfinityOrNaN) {
  EXPECT_EQ(roundToward(DType::F16, {65505}, /*up=*/true),
            store<uint16_t>(Words{0x7C00}));
  EXPECT_EQ(roundToward(DType::F16, {65505}, /*up=*/false),
            store<uint16_t>(Words{0x7BFF}));
  EXPECT_EQ(roundToward(DType::F8_E4M3, {500}, /*up=*/true),
            store<uint8_t>(Codes{0x7F}));
  EXPECT_EQ(roundToward(DType::F8_E4M3, {500}, /*up=*/false),
            store<uint8_t>(Codes{0x7E}));
}

TEST(Compare, EqualBitsAreNoDifference) {
  Bytes elements = store<float>({1, kNan, -0.0f});
  EXPECT_EQ(compareBits(DType::F32, elements, elements), std::nullopt);
}

TEST(Compare, TheFirstDifferenceIsReportedAndAllAreCounted) {
  auto found = compareBits(DType::F32, store<float>({1, 2, 3, 4}),
                           store<float>({1, 3, 3, 5}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->element, 1);
  EXPECT_EQ(found->value, 2);
  EXPECT_EQ(found->expected, 3);
  EXPECT_EQ(found->ulps, 1 << 22);
  EXPECT_EQ(found->different, 2);
  EXPECT_EQ(found->elements, 4);
}

TEST(Compare, ZerosOfBothSignsDiffer) {
  auto found =
      compareBits(DType::F32, store<float>({0.0f}), store<float>({-0.0f}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ulps, 0);
}

TEST(Compare, AnyNaNIsEqualToAnotherInFormatsWithMany) {
  EXPECT_FALSE(compareBits(DType::F16, store<uint16_t>(Words{0x7E00}),
                           store<uint16_t>(Words{0xFE01})));
  EXPECT_TRUE(compareBits(DType::F8_E4M3, store<uint8_t>(Codes{0x7F}),
                          store<uint8_t>(Codes{0xFF})));
}

} // namespace
