//===- NumbersTest.cpp - Formatting and ranges of numbers -----------------===//

#include "binade/Container/Numbers.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstdlib>
#include <limits>

using namespace binade;

TEST(Numbers, FormatShortestTextThatRoundTrips) {
  EXPECT_EQ(formatNumber(0.1), "0.1");
  EXPECT_EQ(formatNumber(1e-8), "1e-08");
  EXPECT_EQ(formatNumber(-3), "-3");
  for (double number :
       {1.0 / 3, 0.0001234567891, 5e-324, std::numeric_limits<double>::max()})
    EXPECT_EQ(std::strtod(formatNumber(number).c_str(), nullptr), number);
}

TEST(Numbers, RangesExplainViolations) {
  NumberRange range{0.0, 1.0, {}};
  EXPECT_EQ(range.explainViolation("x", 0.0), "");
  EXPECT_EQ(range.explainViolation("x", 1.0), "");
  EXPECT_EQ(range.explainViolation("x", -0.5),
            "x must be at least 0, got -0.5");
  EXPECT_EQ(range.explainViolation("x", 2), "x must be at most 1, got 2");
  NumberRange open{{}, {}, 1.0};
  EXPECT_EQ(open.explainViolation("x", std::nextafter(1.0, 0.0)), "");
  EXPECT_EQ(open.explainViolation("x", 1.0), "x must be below 1, got 1");
  EXPECT_EQ(NumberRange().explainViolation("x", -1e300), "");
  EXPECT_EQ(NumberRange().explainViolation("x", INFINITY),
            "x must be finite, got inf");
  EXPECT_EQ(NumberRange().explainViolation("x", std::nan("")),
            "x must be finite, got nan");
}

TEST(Numbers, BytesHaveUnits) {
  EXPECT_EQ(formatBytes(1023), "1023 B");
  EXPECT_EQ(formatBytes(1536), "1.5 KiB");
  EXPECT_EQ(parseBytes("24GiB"), std::uint64_t(24) << 30);
  EXPECT_EQ(parseBytes("1.5 KiB"), 1536u);
  EXPECT_EQ(parseBytes("8e9"), 8000000000u);
  EXPECT_EQ(parseBytes("2kB"), 2000u);
  for (const char *text :
       {"", "0", "-1", "B", "1XB", "1e30", "0x10", "nan", "1 2"})
    EXPECT_EQ(parseBytes(text), std::nullopt) << text;
}

TEST(Numbers, BudgetsAreBytesOrPercentages) {
  EXPECT_EQ(parseBudget("60%", 200), 120u);
  EXPECT_EQ(parseBudget("12.5%", 200), 25u);
  EXPECT_EQ(parseBudget("1KiB", 200), 1024u);
  for (const char *text : {"%", "0%", "101%", "-5%", "60 %", "sixty%"})
    EXPECT_EQ(parseBudget(text, 200), std::nullopt) << text;
}
