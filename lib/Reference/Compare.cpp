//===- Compare.cpp - Distance of results from the reference ---------------===//

#include "binade/Reference/Interpreter.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

Deviation mlir::binade::compare(const Tensor &result, const Tensor &reference,
                                const Tensor *bound) {
  assert(result.getShape() == reference.getShape());
  Deviation worst;
  for (int64_t i = 0, count = result.getNumElements(); i < count; ++i) {
    double left = result.getNumber(i), right = reference.getNumber(i);
    if (left == right || (std::isnan(left) && std::isnan(right)))
      continue;
    double difference = std::fabs(left - right);
    double limit = bound ? (*bound)[i] : 0.0;
    bool isComparable = std::isfinite(difference) && limit > 0.0;
    double ratio = isComparable ? difference / limit : INFINITY;
    if (ratio > worst.ratio)
      worst = {ratio, i, difference, limit};
  }
  return worst;
}
