//===- Convolution.cpp - Convolutions and their gradients -----------------===//

#include "Families.h"
#include <array>
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

namespace {
/// A convolution over three spatial axes: missing ones have length 1.
struct Geometry {
  using Triple = std::array<int64_t, 3>;

  /// `x` and `y` have axes N, C, spatial... or N, spatial..., C.
  template <typename Op>
  Geometry(Op op, ArrayRef<int64_t> x, ArrayRef<int64_t> weight,
           ArrayRef<int64_t> y)
      : groups(op.getGroups()), batch(x[0]), inputs(weight[1]),
        outputs(weight[0] / groups) {
    size_t spatial = weight.size() - 2, missing = 3 - spatial;
    size_t first = op.getChannelsLast() ? 1 : 2;
    SmallVector<int64_t> xStrides = getRowMajorStrides(x),
                         yStrides = getRowMajorStrides(y),
                         wStrides = getRowMajorStrides(weight);
    size_t channel = op.getChannelsLast() ? x.size() - 1 : 1;
    xBatch = xStrides[0], xChannel = xStrides[channel];
    yBatch = yStrides[0], yChannel = yStrides[channel];
    wOutput = wStrides[0], wInput = wStrides[1];
    for (size_t i = 0; i < spatial; ++i) {
      size_t axis = missing + i;
      xSize[axis] = x[first + i], xStride[axis] = xStrides[first + i];
      ySize[axis] = y[first + i], yStride[axis] = yStrides[first + i];
      kSize[axis] = weight[2 + i], kStride[axis] = wStrides[2 + i];
      stride[axis] = op.getStrides()[i];
      dilation[axis] = op.getDilations()[i];
      padding[axis] = op.getPaddingLow()[i];
    }
  }

  /// Calls `use(x index, weight index, y index)` for every multiply-add of an
  /// element of x and one of the weight that contributes to an element of y.
  template <typename Use> void forEachMac(Use use) const {
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t group = 0; group < groups; ++group)
        for (int64_t o = 0; o < outputs; ++o) {
          int64_t output = group * outputs + o;
          forEachTap([&](int64_t xTap, int64_t wTap, int64_t yTap) {
            int64_t xIndex = n * xBatch + group * inputs * xChannel + xTap;
            int64_t wIndex = output * wOutput + wTap;
            int64_t yIndex = n * yBatch + output * yChannel + yTap;
            for (int64_t c = 0; c < inputs; ++c)
              use(xIndex + c * xChannel, wIndex + c * wInput, yIndex);
          });
        }
  }

  int64_t countKernel() const { return kSize[0] * kSize[1] * kSize[2]; }
  int64_t countOutputs() const { return ySize[0] * ySize[1] * ySize[2]; }

  int64_t groups, batch;
  int64_t inputs, outputs; // Channels per group.

private:
  /// Visits the spatial parts of the indices, for all output and kernel
  /// positions whose input is not padding.
  template <typename Use>
  void forEachTap(Use use, size_t axis = 0, int64_t xTap = 0, int64_t wTap = 0,
                  int64_t yTap = 0) const {
    if (axis == 3)
      return use(xTap, wTap, yTap);
    for (int64_t p = 0; p < ySize[axis]; ++p)
      for (int64_t k = 0; k < kSize[axis]; ++k) {
        int64_t q = p * stride[axis] + k * dilation[axis] - padding[axis];
        if (q >= 0 && q < xSize[axis])
          forEachTap(use, axis + 1, xTap + q * xStride[axis],
                     wTap + k * kStride[axis], yTap + p * yStride[axis]);
      }
  }

  int64_t xBatch, xChannel, yBatch, yChannel, wOutput, wInput;
  Triple xSize = {1, 1, 1}, ySize = {1, 1, 1}, kSize = {1, 1, 1};
  Triple xStride = {}, yStride = {}, kStride = {};
  Triple stride = {1, 1, 1}, dilation = {1, 1, 1}, padding = {};
};

/// Sums of terms, by element of a result.
struct Sums {
  explicit Sums(Tensor &result)
      : values(result.getFloats()), magnitudes(values.size()) {}
  void add(int64_t index, double term) {
    values[index] += term;
    magnitudes[index] += std::fabs(term);
  }
  /// Sets the errors of sums of at most `terms` terms.
  void setErrors(Evaluation &e, int64_t terms) const {
    double u = e.getAccumulationRoundoff() * getSumConstant(terms);
    for (auto [index, magnitude] : llvm::enumerate(magnitudes))
      e.setError(0, index, u * magnitude);
  }

  MutableArrayRef<double> values;
  std::vector<double> magnitudes;
};
} // namespace

static void evaluateConv(ConvOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()], &weight = e[op.getWeight()];
  Tensor &y = e.result();
  Geometry geometry(op, x.getShape(), weight.getShape(), y.getShape());
  Sums sums(y);
  geometry.forEachMac([&](int64_t xi, int64_t wi, int64_t yi) {
    sums.add(yi, x[xi] * weight[wi]);
  });
  if (op.getBias()) {
    const Tensor &bias = e[op.getBias()];
    int64_t axis = op.getChannelsLast() ? y.getRank() - 1 : 1;
    int64_t inner = getRowMajorStrides(y.getShape())[axis];
    for (int64_t i = 0, count = y.getNumElements(); i < count; ++i)
      sums.add(i, bias[i / inner % y.getDimSize(axis)]);
  }
  sums.setErrors(e, geometry.inputs * geometry.countKernel() + 1);
}

static void evaluateConvInputGrad(ConvInputGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &weight = e[op.getWeight()];
  Geometry geometry(op, e.result().getShape(), weight.getShape(),
                    dy.getShape());
  Sums sums(e.result());
  geometry.forEachMac([&](int64_t xi, int64_t wi, int64_t yi) {
    sums.add(xi, dy[yi] * weight[wi]);
  });
  sums.setErrors(e, geometry.outputs * geometry.countKernel());
}

static void evaluateConvWeightGrad(ConvWeightGradOp op, Evaluation &e) {
  const Tensor &dy = e[op.getGradient()], &x = e[op.getX()];
  Geometry geometry(op, x.getShape(), e.result().getShape(), dy.getShape());
  Sums sums(e.result());
  geometry.forEachMac([&](int64_t xi, int64_t wi, int64_t yi) {
    sums.add(wi, dy[yi] * x[xi]);
  });
  sums.setErrors(e, geometry.batch * geometry.countOutputs());
}

void mlir::binade::addConvolution(Reference &reference) {
  reference.add<ConvOp>(evaluateConv);
  reference.add<ConvInputGradOp>(evaluateConvInputGrad);
  reference.add<ConvWeightGradOp>(evaluateConvWeightGrad);
}
