//===- Reduction.cpp - Reductions over axes -------------------------------===//

#include "Families.h"
#include "Walk.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

template <typename Op>
static void evaluateSum(Op op, Evaluation &e, bool isMean) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  std::vector<double> magnitudes(y.getNumElements());
  TensorWalk::overReduced(x.getShape(), op.getAxes())
      .forEach([&](int64_t from, int64_t to) {
        y[to] += x[from];
        magnitudes[to] += std::fabs(x[from]);
      });
  int64_t terms = 1;
  for (int64_t axis : op.getAxes())
    terms *= x.getDimSize(axis);
  auto divisor = static_cast<double>(isMean ? terms : 1);
  double u = e.getRoundoff() * (getSumConstant(terms) + isMean);
  for (int64_t i = 0, count = y.getNumElements(); i < count; ++i) {
    y[i] /= divisor;
    e.setError(0, i, u * magnitudes[i] / divisor);
  }
}

static void evaluateMax(ReduceMaxOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  llvm::fill(y.getFloats(), -INFINITY);
  TensorWalk::overReduced(x.getShape(), op.getAxes())
      .forEach([&](int64_t from, int64_t to) {
        if (x[from] > y[to] || std::isnan(x[from]))
          y[to] = x[from];
      });
}

void mlir::binade::addReduction(Reference &reference) {
  reference.add<ReduceSumOp>(
      [](ReduceSumOp op, Evaluation &e) { evaluateSum(op, e, false); });
  reference.add<ReduceMeanOp>(
      [](ReduceMeanOp op, Evaluation &e) { evaluateSum(op, e, true); });
  reference.add<ReduceMaxOp>(evaluateMax);
}
