//===- PhiloxTest.cpp - Counter-based random numbers ----------------------===//

#include "binade/Container/Philox.h"
#include "gtest/gtest.h"

using namespace binade;

// The known answers that Random123 publishes for philox4x32-10.
TEST(Philox, MatchesPublishedVectors) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KeyIsLowThenHighHalfOfTheSeed) {
  EXPECT_EQ(philoxKey(0x299f31d0a4093822), (PhiloxKey{0xa4093822, 0x299f31d0}));
}

TEST(Philox, UniformIsHalfOpenWith24Bits) {
  EXPECT_EQ(philoxUniform(0), 0.0f);
  EXPECT_EQ(philoxUniform(0xff), 0.0f);
  EXPECT_EQ(philoxUniform(0x100), 0x1p-24f);
  EXPECT_EQ(philoxUniform(0x80000000), 0.5f);
  EXPECT_EQ(philoxUniform(0xffffffff), 1.0f - 0x1p-24f);
}

TEST(Philox, NormalFollowsBoxAndMuller) {
  // u = 2^-32: the largest radius, sqrt(64 ln 2), here on the first axis.
  auto [x, y] = philoxNormal(0, 0);
  EXPECT_NEAR(x, 6.660436, 1e-6);
  EXPECT_EQ(y, 0.0);
  // u = 1: radius zero.
  auto [a, b] = philoxNormal(0xffffffff, 0x12345678);
  EXPECT_EQ(std::abs(a) + std::abs(b), 0.0);
  // A quarter turn: sqrt(2 ln 2) on the second axis.
  auto [c, s] = philoxNormal(0x7fffffff, 0x40000000);
  EXPECT_NEAR(c, 0.0, 1e-15);
  EXPECT_NEAR(s, 1.1774100225154747, 1e-15);
}

TEST(Philox, NormalHasTheMomentsOfTheDistribution) {
  constexpr int n = 200000;
  double sums[4] = {};
  for (int i = 0; i < n / 4; ++i) {
    auto words = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, philoxKey(7));
    auto [a, b] = philoxNormal(words[0], words[1]);
    auto [c, d] = philoxNormal(words[2], words[3]);
    for (double value : {a, b, c, d})
      for (int power = 0; power < 4; ++power)
        sums[power] += std::pow(value, power + 1);
  }
  // Four standard errors of each moment.
  EXPECT_NEAR(sums[0] / n, 0.0, 4 * std::sqrt(1.0 / n));
  EXPECT_NEAR(sums[1] / n, 1.0, 4 * std::sqrt(2.0 / n));
  EXPECT_NEAR(sums[2] / n, 0.0, 4 * std::sqrt(15.0 / n));
  EXPECT_NEAR(sums[3] / n, 3.0, 4 * std::sqrt(96.0 / n));
}
