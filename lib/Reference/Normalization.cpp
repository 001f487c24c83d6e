//===- Normalization.cpp - Softmax, layer and batch norm ------------------===//
//
// In every bound, `u` is the unit roundoff of the working format, and the
// number before it is a number of roundings.
//
//===----------------------------------------------------------------------===//

#include "Exponentials.h"
#include "Families.h"
#include "Rows.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Softmax over the last axis
//===----------------------------------------------------------------------===//

static void evaluateSoftmax(SoftmaxOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  double u = e.getRoundoff();
  forEachRow(x, [&](int64_t, int64_t start, int64_t length) {
    Exponentials sum(x.getFloats().slice(start, length));
    for (int64_t i = start; i < start + length; ++i) {
      double shifted = x[i] - sum.max;
      y[i] = std::exp(shifted) / sum.total;
      double roundings = sum.error + std::fabs(shifted) + 6.0;
      e.setError(0, i,
                 y[i] == 0.0 ? 0x1p-126 : u * roundings * y[i] + 0x1p-126);
    }
  });
}

static void evaluateSoftmaxGrad(SoftmaxGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &y = e[op.getY()];
  Tensor &dx = e.result();
  double u = e.getRoundoff();
  forEachRow(y, [&](int64_t, int64_t start, int64_t length) {
    double inner = 0.0, magnitude = 0.0;
    for (int64_t i = start; i < start + length; ++i) {
      inner += dy[i] * y[i];
      magnitude += std::fabs(dy[i] * y[i]);
    }
    double c = getSumConstant(length) + 1.0;
    for (int64_t i = start; i < start + length; ++i) {
      dx[i] = y[i] * (dy[i] - inner);
      e.setError(0, i,
                 u * std::fabs(y[i]) *
                     (c * magnitude + 2.0 * std::fabs(dy[i] - inner)));
    }
  });
}

static void evaluateLogSoftmax(LogSoftmaxOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Tensor &y = e.result();
  double u = e.getRoundoff();
  forEachRow(x, [&](int64_t, int64_t start, int64_t length) {
    Exponentials sum(x.getFloats().slice(start, length));
    double logarithm = std::log(sum.total);
    for (int64_t i = start; i < start + length; ++i) {
      double shifted = x[i] - sum.max;
      y[i] = shifted - logarithm;
      e.setError(0, i,
                 u * (std::fabs(shifted) + 6.0 * std::fabs(logarithm) +
                      sum.error + std::fabs(y[i])));
    }
  });
}

static void evaluateLogSoftmaxGrad(LogSoftmaxGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &y = e[op.getY()];
  Tensor &dx = e.result();
  double u = e.getRoundoff();
  forEachRow(y, [&](int64_t, int64_t start, int64_t length) {
    double total = 0.0, magnitude = 0.0;
    for (int64_t i = start; i < start + length; ++i) {
      total += dy[i];
      magnitude += std::fabs(dy[i]);
    }
    double c = getSumConstant(length) + 6.0;
    for (int64_t i = start; i < start + length; ++i) {
      double p = std::exp(y[i]);
      dx[i] = dy[i] - p * total;
      e.setError(0, i, u * (std::fabs(dy[i]) + c * p * magnitude));
    }
  });
}

//===----------------------------------------------------------------------===//
// Layer normalization over the last axis
//===----------------------------------------------------------------------===//

namespace {
/// Mean and population variance of some elements, NaN for no elements, and
/// bounds on the errors of both in units of u.
struct Moments {
  double mean = 0.0, variance = 0.0, meanError = 0.0, varianceError = 0.0;

  /// Computes them for the `count` elements of `x` that `forEach` visits.
  template <typename ForEach>
  Moments(const Tensor &x, int64_t count, ForEach forEach) {
    auto n = static_cast<double>(count);
    double c = getSumConstant(count) + 1.0, magnitude = 0.0, spread = 0.0;
    forEach([&](int64_t i) {
      mean += x[i] / n;
      magnitude += std::fabs(x[i]) / n;
    });
    forEach([&](int64_t i) {
      double centred = x[i] - mean;
      variance += centred * centred / n;
      spread += std::fabs(centred) / n;
    });
    if (count == 0)
      mean = variance = NAN;
    meanError = c * magnitude;
    varianceError = (c + 3.0) * variance + 2.0 * spread * meanError;
  }

  double getRstd(double epsilon) const {
    return 1.0 / std::sqrt(variance + epsilon);
  }
  /// Returns a relative error in units of u.
  double getRstdError(double epsilon) const {
    return 0.5 * varianceError / (variance + epsilon) + 3.0;
  }
};
} // namespace

static void evaluateLayerNorm(LayerNormOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()], &scale = e[op.getScale()];
  const Tensor *bias = op.getBias() ? &e[op.getBias()] : nullptr;
  double epsilon = op.getEpsilon().convertToDouble(), u = e.getRoundoff();
  forEachRow(x, [&](int64_t row, int64_t start, int64_t length) {
    Moments moments(x, length, [&](auto use) {
      for (int64_t i = start; i < start + length; ++i)
        use(i);
    });
    double rstd = moments.getRstd(epsilon);
    double rstdError = moments.getRstdError(epsilon);
    e.result(1)[row] = moments.mean;
    e.setError(1, row, u * moments.meanError);
    e.result(2)[row] = rstd;
    e.setError(2, row, u * rstdError * rstd);
    for (int64_t j = 0; j < length; ++j) {
      double shift = bias ? (*bias)[j] : 0.0;
      double centred = x[start + j] - moments.mean;
      double slope = rstd * scale[j];
      e.result()[start + j] = centred * slope + shift;
      e.setError(0, start + j,
                 u * (std::fabs(slope) * moments.meanError +
                      std::fabs(centred * slope) * (rstdError + 5.0) +
                      std::fabs(shift)));
    }
  });
}

static void evaluateLayerNormGrad(LayerNormGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &x = e[op.getX()],
               &scale = e[op.getScale()], &mean = e[op.getMean()],
               &rstd = e[op.getRstd()];
  double u = e.getRoundoff();
  forEachRow(x, [&](int64_t row, int64_t start, int64_t length) {
    auto normal = [&](int64_t j) {
      return (x[start + j] - mean[row]) * rstd[row];
    };
    auto n = static_cast<double>(length);
    double meanG = 0.0, meanGN = 0.0, sizeG = 0.0, sizeGN = 0.0;
    for (int64_t j = 0; j < length; ++j) {
      double g = dy[start + j] * scale[j];
      meanG += g / n;
      sizeG += std::fabs(g) / n;
      meanGN += g * normal(j) / n;
      sizeGN += std::fabs(g * normal(j)) / n;
    }
    double c = getSumConstant(length) + 8.0;
    for (int64_t j = 0; j < length; ++j) {
      double g = dy[start + j] * scale[j];
      e.result()[start + j] = rstd[row] * (g - meanG - normal(j) * meanGN);
      e.setError(0, start + j,
                 u * std::fabs(rstd[row]) *
                     (4.0 * std::fabs(g) + c * sizeG +
                      c * std::fabs(normal(j)) * sizeGN));
    }
  });
}

static void evaluateLayerNormParamGrad(LayerNormParamGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &x = e[op.getX()],
               &mean = e[op.getMean()], &rstd = e[op.getRstd()];
  Tensor &dscale = e.result(0), &dbias = e.result(1);
  int64_t columns = dscale.getNumElements();
  std::vector<double> scaleSize(columns), biasSize(columns);
  forEachRow(x, [&](int64_t row, int64_t start, int64_t length) {
    for (int64_t j = 0; j < length; ++j) {
      double g = dy[start + j];
      double term = g * (x[start + j] - mean[row]) * rstd[row];
      dscale[j] += term;
      dbias[j] += g;
      scaleSize[j] += std::fabs(term);
      biasSize[j] += std::fabs(g);
    }
  });
  double u = e.getRoundoff();
  double c = getSumConstant(mean.getNumElements());
  for (int64_t j = 0; j < columns; ++j) {
    e.setError(0, j, u * (c + 4.0) * scaleSize[j]);
    e.setError(1, j, u * c * biasSize[j]);
  }
}

//===----------------------------------------------------------------------===//
// Batch normalization over all axes but `axis`
//===----------------------------------------------------------------------===//

namespace {
/// The elements of `x` by channel.
struct Channels {
  Channels(const Tensor &x, int64_t axis)
      : elements(x.getNumElements()), count(x.getDimSize(axis)),
        inner(getRowMajorStrides(x.getShape())[axis]) {}

  int64_t getChannel(int64_t index) const { return index / inner % count; }
  /// Returns the number of elements per channel.
  int64_t getSize() const { return count == 0 ? 0 : elements / count; }

  template <typename Use> void forEachOf(int64_t channel, Use use) const {
    for (int64_t i = channel * inner; i < elements; i += count * inner)
      for (int64_t j = i; j < i + inner; ++j)
        use(j);
  }

  int64_t elements, count, inner;
};
} // namespace

static void evaluateBatchNormStatistics(BatchNormStatisticsOp op,
                                        Evaluation &e) {
  const Tensor &x = e[op.getX()];
  Channels channels(x, op.getAxis());
  double u = e.getRoundoff();
  for (int64_t c = 0; c < channels.count; ++c) {
    Moments moments(x, channels.getSize(),
                    [&](auto use) { channels.forEachOf(c, use); });
    e.result(0)[c] = moments.mean;
    e.setError(0, c, u * moments.meanError);
    e.result(1)[c] = moments.variance;
    e.setError(1, c, u * moments.varianceError);
  }
}

static void evaluateBatchNorm(BatchNormOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()], &scale = e[op.getScale()],
               &bias = e[op.getBias()], &mean = e[op.getMean()],
               &variance = e[op.getVariance()];
  Channels channels(x, op.getAxis());
  double epsilon = op.getEpsilon().convertToDouble(), u = e.getRoundoff();
  for (int64_t i = 0; i < channels.elements; ++i) {
    int64_t c = channels.getChannel(i);
    double slope = scale[c] / std::sqrt(variance[c] + epsilon);
    double term = (x[i] - mean[c]) * slope;
    e.result()[i] = term + bias[c];
    e.setError(0, i, u * (8.0 * std::fabs(term) + std::fabs(bias[c])));
  }
}

static void evaluateBatchNormParamGrad(BatchNormParamGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &x = e[op.getX()],
               &mean = e[op.getMean()], &variance = e[op.getVariance()];
  Channels channels(x, op.getAxis());
  double epsilon = op.getEpsilon().convertToDouble(), u = e.getRoundoff();
  double roundings = getSumConstant(channels.getSize());
  for (int64_t c = 0; c < channels.count; ++c) {
    double rstd = 1.0 / std::sqrt(variance[c] + epsilon);
    double scaleSize = 0.0, biasSize = 0.0;
    channels.forEachOf(c, [&](int64_t i) {
      double term = dy[i] * (x[i] - mean[c]) * rstd;
      e.result(0)[c] += term;
      e.result(1)[c] += dy[i];
      scaleSize += std::fabs(term);
      biasSize += std::fabs(dy[i]);
    });
    e.setError(0, c, u * (roundings + 6.0) * scaleSize);
    e.setError(1, c, u * roundings * biasSize);
  }
}

static void evaluateBatchNormGrad(BatchNormGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &x = e[op.getX()],
               &scale = e[op.getScale()], &mean = e[op.getMean()],
               &variance = e[op.getVariance()], &dscale = e[op.getDscale()],
               &dbias = e[op.getDbias()];
  Channels channels(x, op.getAxis());
  auto size = static_cast<double>(channels.getSize());
  double epsilon = op.getEpsilon().convertToDouble(), u = e.getRoundoff();
  for (int64_t i = 0; i < channels.elements; ++i) {
    int64_t c = channels.getChannel(i);
    double rstd = 1.0 / std::sqrt(variance[c] + epsilon);
    double shift = 0.0, slope = 0.0;
    if (op.getTraining()) {
      shift = dbias[c] / size;
      slope = (x[i] - mean[c]) * rstd * dscale[c] / size;
    }
    double factor = scale[c] * rstd;
    e.result()[i] = factor * (dy[i] - shift - slope);
    e.setError(0, i,
               u * std::fabs(factor) *
                   (6.0 * std::fabs(dy[i]) + 8.0 * std::fabs(shift) +
                    14.0 * std::fabs(slope)));
  }
}

void mlir::binade::addNormalization(Reference &reference) {
  reference.add<SoftmaxOp>(evaluateSoftmax);
  reference.add<SoftmaxGradOp>(evaluateSoftmaxGrad);
  reference.add<LogSoftmaxOp>(evaluateLogSoftmax);
  reference.add<LogSoftmaxGradOp>(evaluateLogSoftmaxGrad);
  reference.add<LayerNormOp>(evaluateLayerNorm);
  reference.add<LayerNormGradOp>(evaluateLayerNormGrad);
  reference.add<LayerNormParamGradOp>(evaluateLayerNormParamGrad);
  reference.add<BatchNormStatisticsOp>(evaluateBatchNormStatistics);
  reference.add<BatchNormOp>(evaluateBatchNorm);
  reference.add<BatchNormParamGradOp>(evaluateBatchNormParamGrad);
  reference.add<BatchNormGradOp>(evaluateBatchNormGrad);
}
