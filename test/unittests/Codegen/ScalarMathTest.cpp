//===- ScalarMathTest.cpp - Errors of math functions of f64 ---------------===//
//
// The exact values are those of the C library in long double, whose error is
// 2^-11 of the errors measured here.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>
#include <vector>

using namespace binade::test;

static_assert(sizeof(long double) > sizeof(double));

using Exact = long double (*)(long double, long double);

/// Returns the largest error in units of the last place of the f64 nearest to
/// the exact value; infinity if NaN, an infinity or the sign of 0 is wrong.
static double measure(const char *op, Exact exact, std::vector<double> x,
                      std::vector<double> y) {
  Kernel kernel(op, "f64", "f64");
  x.resize((x.size() + Kernel::size - 1) / Kernel::size * Kernel::size, 1.0);
  y.resize(x.size(), 1.0);
  std::vector<double> r(x.size());
  for (size_t at = 0; at < x.size(); at += Kernel::size)
    kernel(&x[at], &y[at], &r[at]);
  double most = 0;
  for (size_t at = 0; at < x.size(); ++at) {
    long double expected = exact(x[at], y[at]);
    auto nearest = static_cast<double>(expected);
    double error = INFINITY;
    if (std::isnan(nearest) || std::isinf(nearest) || nearest == 0) {
      bool same = std::isnan(nearest)
                      ? std::isnan(r[at])
                      : r[at] == nearest &&
                            std::signbit(r[at]) == std::signbit(nearest);
      error = same ? 0 : INFINITY;
    } else {
      double ulp =
          std::nextafter(std::fabs(nearest), INFINITY) - std::fabs(nearest);
      error = static_cast<double>(std::fabs(r[at] - expected) / ulp);
    }
    if (!(error <= most)) {
      most = error;
      if (error > 0.6)
        ADD_FAILURE() << op << " of " << x[at] << ", " << y[at] << " is "
                      << r[at] << ", expected " << nearest;
    }
  }
  std::printf("  %.4f ulp, %zu inputs\n", most, x.size());
  return most;
}

static const double kSpecial[] = {
    0.0,  1.0,    2.0,    3.0,    0.5,      1.5,     0.99999, 1.00001,
    7.0,  5e-324, 1e-310, 1e-300, 1e300,    1.7e308, 0.25,    9007199254740991.,
    4e18, 1e10,   709.9,  745.2,  INFINITY, NAN};

static void addSpecial(std::vector<double> &x, std::vector<double> &y) {
  for (double a : kSpecial)
    for (double b : kSpecial)
      for (int signs = 0; signs < 4; ++signs) {
        x.push_back(signs & 1 ? -a : a);
        y.push_back(signs & 2 ? -b : b);
      }
}

TEST(ScalarMath, ExpIsAccurate) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> range(-708, 709.7), near(-1, 1);
  std::vector<double> x, y;
  addSpecial(x, y);
  for (int count = 0; count < 200000; ++count)
    x.insert(x.end(),
             {range(random), near(random), std::ldexp(near(random), -20)});
  auto exact = [](long double a, long double) { return std::exp(a); };
  EXPECT_LE(measure("%r = math.exp %x : $x", exact, x, y), 0.501);
}

TEST(ScalarMath, LogIsAccurate) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> range(-1074, 1024), near(0.5, 2);
  std::vector<double> x, y;
  addSpecial(x, y);
  for (int count = 0; count < 200000; ++count) {
    double one = 1 + std::ldexp(near(random) - 1, -30);
    x.insert(x.end(), {std::exp2(range(random)), near(random), one});
  }
  auto exact = [](long double a, long double) { return std::log(a); };
  EXPECT_LE(measure("%r = math.log %x : $x", exact, x, y), 0.501);
}

// Optimizers compute powers of a decay whose exponent is the step number.
TEST(ScalarMath, PowIsAccurate) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> logOfBase(-1074, 1024),
      logOfPower(-1021, 1023.9), step(1, 1000000);
  std::vector<double> x, y;
  addSpecial(x, y);
  for (double decay : {0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999999})
    for (int count = 0; count < 20000; ++count) {
      double t = std::floor(step(random));
      if (t * std::log2(decay) < -1021) // Subnormal: rounded twice.
        continue;
      x.push_back(decay);
      y.push_back(t);
    }
  x.resize(y.size());
  for (int count = 0; count < 300000; ++count) {
    double base = std::exp2(logOfBase(random));
    double power = logOfPower(random) / std::log2(base);
    if (!std::isfinite(power) || base == 0)
      continue;
    x.push_back(base);
    y.push_back(power);
  }
  auto exact = [](long double a, long double b) { return std::pow(a, b); };
  EXPECT_LE(measure("%r = math.powf %x, %y : $x", exact, x, y), 0.501);
}
