//===- ValidatorsTest.cpp - Validators of option values -------------------===//

#include "binade/CommandLine/CommandLine.h"
#include "gtest/gtest.h"

using namespace binade;

namespace {

/// Returns the validator's error for `text`; empty if it is valid.
std::string check(const CLI::Validator &validator, std::string text) {
  return validator(text);
}

TEST(Validators, IntegersOutsideTheRangeAreRejected) {
  CLI::Validator validator = integer<int>(1, 8);
  EXPECT_EQ(check(validator, "1"), "");
  EXPECT_EQ(check(validator, "8"), "");
  EXPECT_EQ(check(validator, "0"), "expected an integer, 1 to 8, got '0'");
  EXPECT_EQ(check(validator, "9"), "expected an integer, 1 to 8, got '9'");
}

TEST(Validators, IntegersWithoutAnUpperBoundMustFitTheType) {
  CLI::Validator validator = integer<std::int32_t>();
  EXPECT_EQ(check(validator, "2147483647"), "");
  EXPECT_EQ(check(validator, "2147483648"),
            "expected an integer, 0 or more, got '2147483648'");
}

TEST(Validators, OnlyDecimalIntegersAreAccepted) {
  CLI::Validator validator = integer<int>();
  for (std::string text : {"", " 3", "3 ", "+3", "0x10", "1e3", "3.0"})
    EXPECT_EQ(check(validator, text),
              "expected an integer, 0 or more, got '" + text + "'");
}

TEST(Validators, NonFiniteNumbersAreRejected) {
  CLI::Validator validator = number();
  EXPECT_EQ(check(validator, "-1.5e-3"), "");
  EXPECT_EQ(check(validator, "abc"), "expected a number, got 'abc'");
  EXPECT_EQ(check(validator, "1.5x"), "expected a number, got '1.5x'");
  EXPECT_EQ(check(validator, ""), "expected a number, got ''");
  for (std::string text : {"inf", "-inf", "nan", "1e999"})
    EXPECT_NE(check(validator, text).find("must be finite"), std::string::npos);
}

TEST(Validators, NumbersOutsideTheRangeAreRejected) {
  CLI::Validator share = number({.min = 0, .below = 1});
  EXPECT_EQ(check(share, "0"), "");
  EXPECT_EQ(check(share, "0.5"), "");
  EXPECT_EQ(check(share, "1"), "the number must be below 1, got 1");
  EXPECT_EQ(check(share, "-0.5"), "the number must be at least 0, got -0.5");
  EXPECT_EQ(check(number({.max = 2}), "2.5"),
            "the number must be at most 2, got 2.5");
}

TEST(Validators, AnUnknownNameListsTheKnownOnes) {
  CLI::Validator validator = oneOf({"text", "json"});
  EXPECT_EQ(check(validator, "json"), "");
  EXPECT_EQ(check(validator, "jsn"),
            "expected one of text, json, got 'jsn'; did you mean 'json'?");
  EXPECT_EQ(check(validator, "html5"),
            "expected one of text, json, got 'html5'");
}

TEST(Validators, UnprintableCharactersOfNamesAreEscaped) {
  EXPECT_EQ(joinPrintable({}), "");
  EXPECT_EQ(joinPrintable({"a", "b"}), "a, b");
  EXPECT_EQ(joinPrintable({"a\x1b[31m"}).find('\x1b'), std::string::npos);
}

} // namespace
