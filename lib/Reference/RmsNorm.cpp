//===- RmsNorm.cpp - Root mean square normalization -----------------------===//

#include "Families.h"
#include "Rows.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static void evaluateRmsNorm(RmsNormOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()], &scale = e[op.getScale()];
  double epsilon = op.getEpsilon().convertToDouble(), u = e.getRoundoff();
  forEachRow(x, [&](int64_t row, int64_t start, int64_t length) {
    auto n = static_cast<double>(length);
    double mean = 0.0;
    for (int64_t i = start; i < start + length; ++i)
      mean += x[i] * x[i] / n;
    if (length == 0)
      mean = NAN;
    double rstd = 1.0 / std::sqrt(mean + epsilon);
    // The error of a sum of nonnegative terms and of a root; relative, in units
    // of u.
    double error =
        0.5 * (getSumConstant(length) + 3.0) * mean / (mean + epsilon) + 3.0;
    e.result(1)[row] = rstd;
    e.setError(1, row, u * error * rstd);
    for (int64_t j = 0; j < length; ++j) {
      double y = x[start + j] * rstd * scale[j];
      e.result()[start + j] = y;
      e.setError(0, start + j, u * (error + 3.0) * std::fabs(y));
    }
  });
}

static void evaluateRmsNormGrad(RmsNormGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &x = e[op.getX()],
               &scale = e[op.getScale()], &rstd = e[op.getRstd()];
  double u = e.getRoundoff();
  forEachRow(x, [&](int64_t row, int64_t start, int64_t length) {
    auto n = static_cast<double>(length);
    double mean = 0.0, size = 0.0;
    for (int64_t j = 0; j < length; ++j) {
      double term = dy[start + j] * scale[j] * x[start + j] * rstd[row] / n;
      mean += term;
      size += std::fabs(term);
    }
    double c = getSumConstant(length) + 8.0;
    for (int64_t j = 0; j < length; ++j) {
      double g = dy[start + j] * scale[j], normal = x[start + j] * rstd[row];
      e.result()[start + j] = rstd[row] * (g - normal * mean);
      e.setError(0, start + j,
                 u * std::fabs(rstd[row]) *
                     (4.0 * std::fabs(g) + c * std::fabs(normal) * size));
    }
  });
}

static void evaluateRmsNormScaleGrad(RmsNormScaleGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &x = e[op.getX()],
               &rstd = e[op.getRstd()];
  Tensor &dscale = e.result();
  std::vector<double> size(dscale.getNumElements());
  forEachRow(x, [&](int64_t row, int64_t start, int64_t length) {
    for (int64_t j = 0; j < length; ++j) {
      double term = dy[start + j] * x[start + j] * rstd[row];
      dscale[j] += term;
      size[j] += std::fabs(term);
    }
  });
  double c = getSumConstant(rstd.getNumElements()) + 3.0;
  for (auto [j, magnitude] : llvm::enumerate(size))
    e.setError(0, j, e.getRoundoff() * c * magnitude);
}

void mlir::binade::addRmsNorm(Reference &reference) {
  reference.add<RmsNormOp>(evaluateRmsNorm);
  reference.add<RmsNormGradOp>(evaluateRmsNormGrad);
  reference.add<RmsNormScaleGradOp>(evaluateRmsNormScaleGrad);
}
