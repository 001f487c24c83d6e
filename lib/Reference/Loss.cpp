//===- Loss.cpp - Losses --------------------------------------------------===//

#include "Exponentials.h"
#include "Families.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns the class of `row`; none if the label is ignored.
static FailureOr<std::optional<int64_t>> getLabel(Operation *op,
                                                  const Tensor &labels,
                                                  int64_t row, int64_t classes,
                                                  int64_t ignoreIndex) {
  int64_t label = labels.getIntegers()[row];
  if (label == ignoreIndex)
    return std::optional<int64_t>();
  if (label < 0 || label >= classes)
    return op->emitOpError("label ")
           << label << " of row " << row << " is neither one of " << classes
           << " classes nor ignore_index " << ignoreIndex;
  return std::optional<int64_t>(label);
}

static LogicalResult evaluateCrossEntropy(CrossEntropyOp op, Evaluation &e) {
  const Tensor &logits = e[op.getLogits()], &labels = e[op.getLabels()];
  int64_t classes = logits.getDimSize(1);
  double u = e.getRoundoff();
  for (int64_t row = 0, rows = logits.getDimSize(0); row < rows; ++row) {
    FailureOr<std::optional<int64_t>> label =
        getLabel(op, labels, row, classes, op.getIgnoreIndex());
    if (failed(label))
      return failure();
    Exponentials sum(logits.getFloats().slice(row * classes, classes));
    double logarithm = std::log(sum.total);
    double error = sum.error + 6.0 * std::fabs(logarithm);
    e.result(1)[row] = sum.max;
    e.result(2)[row] = logarithm;
    e.setError(2, row, u * error);
    if (!*label)
      continue;
    double below = logits[row * classes + **label] - sum.max;
    e.result(0)[row] = logarithm - below;
    e.setError(0, row,
               u * (error + std::fabs(below) + std::fabs(logarithm - below)));
  }
  return success();
}

static LogicalResult evaluateCrossEntropyGrad(CrossEntropyGradOp op,
                                              Evaluation &e) {
  const Tensor &gradient = e[op.getGradient()], &logits = e[op.getLogits()],
               &labels = e[op.getLabels()], &maximum = e[op.getMaximum()],
               &logarithm = e[op.getLogarithm()];
  int64_t classes = logits.getDimSize(1);
  double u = e.getRoundoff();
  for (int64_t row = 0, rows = logits.getDimSize(0); row < rows; ++row) {
    FailureOr<std::optional<int64_t>> label =
        getLabel(op, labels, row, classes, op.getIgnoreIndex());
    if (failed(label))
      return failure();
    if (!*label)
      continue;
    for (int64_t j = 0; j < classes; ++j) {
      int64_t i = row * classes + j;
      double below = logits[i] - maximum[row];
      double exponent = below - logarithm[row];
      double p = std::exp(exponent), hit = j == **label;
      e.result()[i] = gradient[row] * (p - hit);
      double roundings =
          (p == 0.0 ? 0.0
                    : p * (std::fabs(below) + std::fabs(exponent) + 6.0)) +
          2.0 * std::fabs(p - hit);
      e.setError(0, i, std::fabs(gradient[row]) * (u * roundings + 0x1p-126));
    }
  }
  return success();
}

static void evaluateLabelWeight(LabelWeightOp op, Evaluation &e) {
  int64_t count =
      llvm::count_if(e[op.getLabels()].getIntegers(), [&](int64_t label) {
        return label != static_cast<int64_t>(op.getIgnoreIndex());
      });
  e.result()[0] = 1.0 / static_cast<double>(count);
}

void mlir::binade::addLoss(Reference &reference) {
  reference.add<CrossEntropyOp>(evaluateCrossEntropy);
  reference.add<CrossEntropyGradOp>(evaluateCrossEntropyGrad);
  reference.add<LabelWeightOp>(evaluateLabelWeight);
}
