//===- ExpandMathTest.cpp - Errors of math functions of f32 ---------------===//
//
// The exact values are those of the C library in f64, whose error is much
// smaller than the errors measured here.
//
//===----------------------------------------------------------------------===//

#include "Sweep.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace binade::test;

namespace {
struct Function {
  const char *name;
  const char *op;
  double (*exact)(double x, double y);
  /// The error bound that docs/Math.md promises.
  double ulps;
  /// The range of arguments for the measurement of speed.
  float low, high;
};
void PrintTo(const Function &function, std::ostream *stream) {
  *stream << function.name;
}
} // namespace

static const Function kFunctions[] = {
    {"exp", "%r = math.exp %x : $x",
     [](double x, double) { return std::exp(x); }, 0.90, -80, 80},
    // Arguments that are not positive take fewer instructions.
    {"decay",
     "%m = math.absf %x : $x\n%n = arith.negf %m : $x\n%r = math.exp %n : $x",
     [](double x, double) { return std::exp(-std::abs(x)); }, 0.90, -80, 80},
    {"exp2", "%r = math.exp2 %x : $x",
     [](double x, double) { return std::exp2(x); }, 0.88, -120, 120},
    {"expm1", "%r = math.expm1 %x : $x",
     [](double x, double) { return std::expm1(x); }, 1.45, -20, 80},
    {"log", "%r = math.log %x : $x",
     [](double x, double) { return std::log(x); }, 0.94, 0.01f, 100},
    {"log2", "%r = math.log2 %x : $x",
     [](double x, double) { return std::log2(x); }, 1.43, 0.01f, 100},
    {"log1p", "%r = math.log1p %x : $x",
     [](double x, double) { return std::log1p(x); }, 1.27, -0.9f, 100},
    {"tanh", "%r = math.tanh %x : $x",
     [](double x, double) { return std::tanh(x); }, 1.37, -5, 5},
    {"erf", "%r = math.erf %x : $x",
     [](double x, double) { return std::erf(x); }, 1.14, -3, 3},
    {"sin", "%r = math.sin %x : $x",
     [](double x, double) { return std::sin(x); }, 0.501, -100, 100},
    {"cos", "%r = math.cos %x : $x",
     [](double x, double) { return std::cos(x); }, 0.501, -100, 100},
    {"atan", "%r = math.atan %x : $x",
     [](double x, double) { return std::atan(x); }, 0.501, -10, 10},
    {"rsqrt", "%r = math.rsqrt %x : $x",
     [](double x, double) { return 1 / std::sqrt(x); }, 1.5, 0.01f, 100},
    {"powf", "%r = math.powf %x, %y : $x",
     [](double x, double y) { return std::pow(x, y); }, 0.53, 0.01f, 100},
};

class ExpandMath : public testing::TestWithParam<Function> {};
INSTANTIATE_TEST_SUITE_P(, ExpandMath, testing::ValuesIn(kFunctions),
                         [](const auto &info) { return info.param.name; });

static void expectAccurate(const Accuracy &found, double ulps) {
  std::printf("  %.4f ulp at %a, %llu inputs\n", found.ulps, found.at,
              static_cast<unsigned long long>(found.inputs));
  EXPECT_LE(found.ulps, ulps) << "at " << testing::PrintToString(found.at);
  EXPECT_EQ(found.wrong, 0u) << "at " << testing::PrintToString(found.wrongAt);
}

static void expectAccurate(const Function &function, Sweep sweep) {
  Kernel kernel(function.op, "f32", "f32");
  expectAccurate(measure(kernel, function.exact, sweep, 2.7f), function.ulps);
}

TEST_P(ExpandMath, IsAccurate) { expectAccurate(GetParam(), Sweep::Part); }

TEST_P(ExpandMath, IsAccurateForAllInputsNightly) {
  expectAccurate(GetParam(), Sweep::All);
}

TEST_P(ExpandMath, HasTheSameBitsForAnyWidthAndCPU) {
  Kernel first(GetParam().op, "f32", "f32");
  for (const Variant &variant : allVariants()) {
    Kernel other(GetParam().op, "f32", "f32", variant);
    uint32_t at = 0;
    EXPECT_EQ(countDifferences(first, other, 2.7f, sizeof(float), at), 0u)
        << "<" << variant.shape << "f32> on " << variant.cpu << " at 0x"
        << std::hex << at;
  }
}

// The expansion for arguments that are not positive equals the general one,
// which a multiplication by 1 asks for.
TEST(ExpandExp, HasTheSameBitsForDecays) {
  const std::string decay = "%m = math.absf %x : $x\n%n = arith.negf %m : $x\n",
                    gauss = "%m = arith.mulf %x, %x : $x\n"
                            "%c = arith.constant dense<-0.5> : $x\n"
                            "%n = arith.mulf %m, %c : $x\n";
  for (const std::string &argument : {decay, gauss}) {
    Kernel kernel(argument + "%r = math.exp %n : $x", "f32", "f32");
    Kernel general(argument + "%one = arith.constant dense<1.0> : $x\n"
                              "%p = arith.mulf %n, %one : $x\n"
                              "%r = math.exp %p : $x",
                   "f32", "f32");
    uint32_t at = 0;
    EXPECT_EQ(countDifferences(general, kernel, 0, sizeof(float), at), 0u)
        << "at 0x" << std::hex << at;
  }
}

// The f32 values closest to a multiple of pi / 2: among all, and among values
// so large that their reduction needs the last bits of 1 / (2 pi).
TEST(ExpandSin, IsAccurateForTheHardestAngles) {
  std::vector<float> x;
  for (float a : {0x1.f37c8ap+95f, 0x1.47d0fep+34f, 0x1.32ede2p+85f,
                  0x1.7b9b4p+126f, 0x1.7b9b4p+127f, 0x1.2ceb8p+119f})
    x.insert(x.end(), {a, -a});
  Kernel sin("%r = math.sin %x : $x", "f32", "f32");
  Kernel cos("%r = math.cos %x : $x", "f32", "f32");
  auto exactSin = [](double a, double) { return std::sin(a); };
  auto exactCos = [](double a, double) { return std::cos(a); };
  expectAccurate(measure(sin, exactSin, x, x), 0.501);
  expectAccurate(measure(cos, exactCos, x, x), 0.501);
}

// All pairs of the special values of IEEE 754 and C, and of some others.
TEST(ExpandPow, HandlesSpecialCases) {
  const float inf = INFINITY, nan = NAN;
  const float values[] = {0.0f,    1.0f,     2.0f,     3.0f,     0.5f,
                          1.5f,    0.99999f, 1.00001f, 7.0f,     1e-45f,
                          1e-38f,  1e38f,    8388609., 16777215, 16777216,
                          3.4e38f, 1e10f,    0.25f,    inf,      nan};
  std::vector<float> x, y;
  for (float a : values)
    for (float b : values)
      for (int signs = 0; signs < 4; ++signs) {
        x.push_back(signs & 1 ? -a : a);
        y.push_back(signs & 2 ? -b : b);
      }
  Kernel kernel("%r = math.powf %x, %y : $x", "f32", "f32");
  auto exact = [](double a, double b) { return std::pow(a, b); };
  expectAccurate(measure(kernel, exact, x, y), 0.53);
}

TEST(ExpandPow, IsAccurateForPairs) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-160, 160), log2(-149, 128);
  std::vector<float> x, y;
  // Finite powers: the logarithm of the result and x are drawn.
  for (int i = 0; i < 2000000; ++i) {
    x.push_back(std::exp2(i % 2 ? log2(random) : log2(random) / 1000));
    y.push_back(exponent(random) / std::log2(x.back()));
  }
  Kernel kernel("%r = math.powf %x, %y : $x", "f32", "f32");
  auto exact = [](double a, double b) { return std::pow(a, b); };
  expectAccurate(measure(kernel, exact, x, y), 0.53);
}

static void sweepBases(Sweep sweep) {
  Kernel kernel("%r = math.powf %x, %y : $x", "f32", "f32");
  auto exact = [](double x, double y) { return std::pow(x, y); };
  for (float y : {-1.0f / 3, 7.0f, 100.5f})
    expectAccurate(measure(kernel, exact, sweep, y), 0.53);
}

TEST(ExpandPow, IsAccurateForAllBases) { sweepBases(Sweep::Part); }

TEST(ExpandPow, IsAccurateForAllBasesNightly) { sweepBases(Sweep::All); }

// Exponents with an expansion to a few operations, and some without.
static void sweepConstantExponents(Sweep sweep) {
  auto expect = [&](const char *text, double (*exact)(double, double),
                    double ulps) {
    Kernel kernel(std::string("%c = arith.constant dense<") + text +
                      "> : $x\n%r = math.powf %x, %c : $x",
                  "f32", "f32");
    expectAccurate(measure(kernel, exact, sweep), ulps);
  };
  expect("1.0", [](double x, double) { return x; }, 0.5);
  expect("2.0", [](double x, double) { return x * x; }, 0.5);
  expect("3.0", [](double x, double) { return x * x * x; }, 1.29);
  expect("-1.0", [](double x, double) { return 1 / x; }, 0.5);
  expect("0.5", [](double x, double) { return std::pow(x, 0.5); }, 0.5);
  expect("-0.5", [](double x, double) { return std::pow(x, -0.5); }, 1.5);
  expect("1.5", [](double x, double) { return std::pow(x, 1.5); }, 0.53);
  expect("0.0", [](double, double) { return 1.0; }, 0.5);
}

TEST(ExpandPow, IsAccurateForConstantExponents) {
  sweepConstantExponents(Sweep::Part);
}

TEST(ExpandPow, IsAccurateForConstantExponentsNightly) {
  sweepConstantExponents(Sweep::All);
}

// A measurement, not a test: prints the times that docs/Math.md lists.
TEST_P(ExpandMath, DISABLED_Speed) {
  printSpeeds(GetParam().op, "f32", GetParam().low, GetParam().high);
}
