//===- Monitor.cpp - Statistics of values ---------------------------------===//

#include "Families.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns the biased exponent of `x` as an f32, 0 for subnormals.
static int64_t getExponent(double x) {
  if (!std::isfinite(x))
    return 255;
  return x == 0.0 ? 0 : std::max(std::ilogb(x) + 127, 0);
}

static void evaluateStatistics(StatisticsOp op, Evaluation &e) {
  double amax = 0.0, smallest = std::numeric_limits<double>::infinity();
  int64_t zeros = 0, nonFinite = 0;
  std::vector<int64_t> exponents(StatisticsOp::kExponents);
  for (double x : e[op.getX()].getFloats()) {
    double magnitude = std::fabs(x);
    amax = std::isnan(amax) || magnitude <= amax ? amax : magnitude;
    if (magnitude > 0.0 && magnitude < smallest)
      smallest = magnitude;
    zeros += x == 0.0;
    nonFinite += !std::isfinite(x);
    ++exponents[getExponent(magnitude)];
  }
  for (auto [index, member] : llvm::enumerate(op.getMembers()))
    switch (member) {
    case Statistic::Amax:
      e.result(index)[0] = amax;
      break;
    case Statistic::Smallest:
      e.result(index)[0] = smallest;
      break;
    case Statistic::Zeros:
      e.result(index).getIntegers()[0] = zeros;
      break;
    case Statistic::NonFinite:
      e.result(index).getIntegers()[0] = nonFinite;
      break;
    case Statistic::Exponents:
      llvm::copy(exponents, e.result(index).getIntegers().begin());
      break;
    }
}

void mlir::binade::addMonitor(Reference &reference) {
  reference.add<StatisticsOp>(evaluateStatistics);
}
