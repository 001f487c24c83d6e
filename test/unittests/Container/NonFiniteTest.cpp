//===- NonFiniteTest.cpp - Elements that are not finite -------------------===//

#include "binade/Container/NonFinite.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace binade;

template <typename Element>
static NonFinite find(DType dtype, std::vector<Element> elements,
                      bool countsMinusInfinity = true) {
  return findNonFinite(dtype, std::as_bytes(std::span(elements)),
                       countsMinusInfinity);
}

template <typename Float> static void searchFloats(DType dtype) {
  using Limits = std::numeric_limits<Float>;
  const Float infinity = Limits::infinity();
  EXPECT_EQ(find<Float>(dtype, {}).count, 0u);
  EXPECT_EQ(find<Float>(dtype, {0, Limits::max(), Limits::lowest(),
                                Limits::denorm_min()})
                .count,
            0u);
  std::vector<Float> some = {1, -infinity, 2, infinity, Limits::quiet_NaN()};
  EXPECT_EQ(find(dtype, some).count, 3u);
  EXPECT_EQ(find(dtype, some).first, 1u);
  EXPECT_EQ(find(dtype, some, false).count, 2u);
  EXPECT_EQ(find(dtype, some, false).first, 3u);
}

TEST(NonFinite, FindsNonFiniteWideFloats) {
  searchFloats<double>(DType::F64);
  searchFloats<float>(DType::F32);
}

// Compares all 16-bit patterns with the exponent of f16 or `std::isfinite`.
TEST(NonFinite, FindsNonFiniteNarrowFloats) {
  for (unsigned code = 0; code < 0x10000; ++code) {
    auto bits = static_cast<std::uint16_t>(code);
    unsigned exponent = code >> 10 & 31;
    EXPECT_EQ(find<std::uint16_t>(DType::F16, {bits}).count, exponent == 31)
        << code;
    float number = std::bit_cast<float>(code << 16);
    EXPECT_EQ(find<std::uint16_t>(DType::BF16, {bits}).count,
              !std::isfinite(number))
        << code;
  }
  EXPECT_EQ(find<std::uint16_t>(DType::F16, {0xfc00}, false).count, 0u);
  EXPECT_EQ(find<std::uint16_t>(DType::BF16, {0xff80}, false).count, 0u);
  EXPECT_EQ(find<std::uint16_t>(DType::BF16, {0xff81}, false).count, 1u);
}

TEST(NonFinite, OtherTypesHaveNone) {
  EXPECT_EQ(find<std::uint32_t>(DType::I32, {0x7fc00000}).count, 0u);
  EXPECT_EQ(find<std::uint8_t>(DType::F8_E5M2, {0x7c}).count, 0u);
}

TEST(NonFinite, DescribesTheCountAndTheFirst) {
  EXPECT_EQ((NonFinite{1, 7}).describe(),
            "1 value that is not finite, the first as element 7");
  EXPECT_EQ((NonFinite{20, 0}).describe(),
            "20 values that are not finite, the first as element 0");
}
