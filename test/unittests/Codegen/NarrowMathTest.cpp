//===- NarrowMathTest.cpp - Errors of math functions for 16 bits ----------===//
//
// Functions with the attribute `binade.accuracy`. Their results are f32, so
// that the error is measured before the rounding to 16 bits, in units of the
// last place of the narrow format.
//
//===----------------------------------------------------------------------===//

#include "Sweep.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace binade::test;

namespace {
struct Function {
  const char *name;
  /// Contains `$a` in the place of the attribute.
  const char *op;
  double (*exact)(double x, double y);
  /// The error bounds that docs/Math.md promises, for bf16 and f16.
  double ulps[2];
  /// The range of arguments for the measurement of speed.
  float low, high;
};
void PrintTo(const Function &function, std::ostream *stream) {
  *stream << function.name;
}

/// A format, and the ulps of f32 in one of its own.
struct Format {
  const char *name;
  double ulp;
};
} // namespace

static constexpr Format kFormats[] = {{"bf16", 0x1p16}, {"f16", 0x1p13}};

static const Function kFunctions[] = {
    {"exp",
     "%r = math.exp %x $a : $x",
     [](double x, double) { return std::exp(x); },
     {0.03, 0.01},
     -80,
     80},
    {"decay",
     "%m = math.absf %x : $x\n%n = arith.negf %m : $x\n"
     "%r = math.exp %n $a : $x",
     [](double x, double) { return std::exp(-std::abs(x)); },
     {0.03, 0.01},
     -80,
     80},
    {"log",
     "%r = math.log %x $a : $x",
     [](double x, double) { return std::log(x); },
     {0.02, 0.02},
     0.01f,
     100},
    {"tanh",
     "%r = math.tanh %x $a : $x",
     [](double x, double) { return std::tanh(x); },
     {0.03, 0.01},
     -5,
     5},
    {"erf",
     "%r = math.erf %x $a : $x",
     [](double x, double) { return std::erf(x); },
     {0.03, 0.05},
     -3,
     3},
    {"erfc",
     "%r = math.erfc %x $a : $x",
     [](double x, double) { return std::erfc(x); },
     {0.04, 0.07},
     -3,
     9},
    {"tail",
     "%m = math.absf %x : $x\n%r = math.erfc %m $a : $x",
     [](double x, double) { return std::erfc(std::abs(x)); },
     {0.04, 0.07},
     -9,
     9},
};

static std::string getText(const Function &function, const Format &format) {
  std::string text = function.op;
  size_t at = text.find("$a");
  return text.replace(at, 2,
                      std::string("{binade.accuracy = ") + format.name + "}");
}

using Case = std::tuple<Function, int>;
class NarrowMath : public testing::TestWithParam<Case> {
protected:
  const Function &function = std::get<0>(GetParam());
  const Format &format = kFormats[std::get<1>(GetParam())];
  std::string text = getText(function, format);

  void expectAccurate(Sweep sweep) {
    Kernel kernel(text, "f32", "f32");
    Accuracy found = measure(kernel, function.exact, sweep);
    double ulps = found.ulps / format.ulp;
    std::printf("  %.4f ulp of %s at %a, %llu inputs\n", ulps, format.name,
                found.at, static_cast<unsigned long long>(found.inputs));
    EXPECT_LE(ulps, function.ulps[std::get<1>(GetParam())]);
    EXPECT_EQ(found.wrong, 0u)
        << "at " << testing::PrintToString(found.wrongAt);
  }
};
INSTANTIATE_TEST_SUITE_P(, NarrowMath,
                         testing::Combine(testing::ValuesIn(kFunctions),
                                          testing::Values(0, 1)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  "_" + kFormats[std::get<1>(info.param)].name;
                         });

TEST_P(NarrowMath, IsAccurate) { expectAccurate(Sweep::Part); }

TEST_P(NarrowMath, IsAccurateForAllInputsNightly) {
  expectAccurate(Sweep::All);
}

TEST_P(NarrowMath, HasTheSameBitsForAnyWidthAndCPU) {
  Kernel first(text, "f32", "f32");
  for (const Variant &variant : allVariants()) {
    Kernel other(text, "f32", "f32", variant);
    uint32_t at = 0;
    EXPECT_EQ(countDifferences(first, other, 2.7f, sizeof(float), at), 0u)
        << "<" << variant.shape << "f32> on " << variant.cpu << " at 0x"
        << std::hex << at;
  }
}

// A measurement, not a test: prints the times that docs/Math.md lists.
TEST_P(NarrowMath, DISABLED_Speed) {
  printSpeeds(text, "f32", function.low, function.high);
}
