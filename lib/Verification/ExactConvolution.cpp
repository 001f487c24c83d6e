//===- ExactConvolution.cpp - Exact results of convolutions ---------------===//

#include "ExactSums.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using Index = SmallVector<int64_t, 5>;

namespace {
/// The layout of a tensor with axes samples (or output channels of a weight),
/// channels, spatial axes, which may be stored channels-last.
class Layout {
public:
  Layout(int64_t outer, int64_t channels, ArrayRef<int64_t> places,
         bool channelsLast)
      : sizes({outer, channels}), strides(2 + places.size()) {
    llvm::append_range(sizes, places);
    int64_t stride = channelsLast ? channels : 1;
    for (size_t axis = sizes.size(); axis-- > 2;) {
      strides[axis] = stride;
      stride *= sizes[axis];
    }
    strides[1] = channelsLast ? 1 : stride;
    strides[0] = channelsLast ? stride : stride * channels;
  }

  int64_t countElements() const {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return count;
  }
  Index getIndex(int64_t number) const {
    Index index(sizes.size());
    for (size_t axis = index.size(); axis-- > 0;) {
      index[axis] = number % sizes[axis];
      number /= sizes[axis];
    }
    return index;
  }
  int64_t getOffset(ArrayRef<int64_t> index) const {
    int64_t offset = 0;
    for (auto [stride, i] : llvm::zip(strides, index))
      offset += stride * i;
    return offset;
  }

private:
  SmallVector<int64_t, 5> sizes, strides;
};

class ExactConvolution {
public:
  ExactConvolution(const plan::Convolution &c, const Execution &execution)
      : c(c), execution(execution), channels(c.inChannels / c.groups),
        filters(c.outChannels / c.groups),
        x(c.batch, c.inChannels, c.input, c.channelsLast),
        weight(c.outChannels, channels, c.kernel, false),
        y(c.batch, c.outChannels, c.output, c.channelsLast) {}

  Judgement judge() const;

private:
  enum Operand { X, Weight, Y, Bias }; ///< In the order of `listAccesses`.

  ExactElement computeOutput(int64_t number) const;
  ExactElement computeInputGradient(int64_t number) const;
  ExactElement computeWeightGradient(int64_t number) const;

  /// Sets `input` to the position that `output` reads at kernel position `tap`;
  /// returns false for padding.
  bool findInput(ArrayRef<int64_t> output, ArrayRef<int64_t> tap,
                 MutableArrayRef<int64_t> input) const {
    for (size_t d = 0; d < input.size(); ++d) {
      input[d] =
          output[d] * c.strides[d] + tap[d] * c.dilations[d] - c.paddingLow[d];
      if (input[d] < 0 || input[d] >= c.input[d])
        return false;
    }
    return true;
  }

  /// Sets `output` to the position that reads `input` at kernel position `tap`;
  /// returns false if there is none.
  bool findOutput(ArrayRef<int64_t> input, ArrayRef<int64_t> tap,
                  MutableArrayRef<int64_t> output) const {
    for (size_t d = 0; d < output.size(); ++d) {
      int64_t place = input[d] + c.paddingLow[d] - tap[d] * c.dilations[d];
      output[d] = place / c.strides[d];
      if (place < 0 || place % c.strides[d] != 0 || output[d] >= c.output[d])
        return false;
    }
    return true;
  }

  static MutableArrayRef<int64_t> places(Index &index) {
    return MutableArrayRef<int64_t>(index).drop_front(2);
  }

  double read(Operand operand, const Layout &layout,
              ArrayRef<int64_t> index) const {
    return readElement(execution.accesses[operand].dtype,
                       execution.before[operand], layout.getOffset(index));
  }

  const plan::Convolution &c;
  const Execution &execution;
  int64_t channels, filters; ///< Channels per group.
  Layout x, weight, y;
};
} // namespace

ExactElement ExactConvolution::computeOutput(int64_t number) const {
  Index output = y.getIndex(number);
  int64_t group = output[1] / filters;
  ExactSum sum;
  Layout taps(1, channels, c.kernel, false);
  for (int64_t i = 0, count = taps.countElements(); i < count; ++i) {
    Index tap = taps.getIndex(i), input = tap;
    if (!findInput(places(output), places(tap), places(input)))
      continue;
    input[0] = output[0];
    input[1] = group * channels + tap[1];
    tap[0] = output[1];
    sum.add(read(X, x, input) * read(Weight, weight, tap));
  }
  if (c.bias)
    sum.add(readElement(execution.accesses[Bias].dtype, execution.before[Bias],
                        output[1]));
  return {y.getOffset(output), sum};
}

ExactElement ExactConvolution::computeInputGradient(int64_t number) const {
  Index input = x.getIndex(number);
  int64_t group = input[1] / channels;
  ExactSum sum;
  Layout taps(filters, 1, c.kernel, false);
  for (int64_t i = 0, count = taps.countElements(); i < count; ++i) {
    Index tap = taps.getIndex(i), output = tap;
    if (!findOutput(places(input), places(tap), places(output)))
      continue;
    tap[0] += group * filters;
    tap[1] = input[1] % channels;
    output[0] = input[0];
    output[1] = tap[0];
    sum.add(read(Y, y, output) * read(Weight, weight, tap));
  }
  return {x.getOffset(input), sum};
}

ExactElement ExactConvolution::computeWeightGradient(int64_t number) const {
  Index tap = weight.getIndex(number);
  int64_t group = tap[0] / filters;
  ExactSum sum;
  Layout outputs(c.batch, 1, c.output, false);
  for (int64_t i = 0, count = outputs.countElements(); i < count; ++i) {
    Index output = outputs.getIndex(i), input = output;
    if (!findInput(places(output), places(tap), places(input)))
      continue;
    input[1] = group * channels + tap[1];
    output[1] = tap[0];
    sum.add(read(X, x, input) * read(Y, y, output));
  }
  return {weight.getOffset(tap), sum};
}

Judgement ExactConvolution::judge() const {
  Layout taps(1, 1, c.kernel, false), outputs(c.batch, 1, c.output, false);
  switch (c.direction) {
  case plan::Convolution::Forward:
    return judgeSums(execution, Y, y.countElements(),
                     channels * taps.countElements(),
                     [&](int64_t i) { return computeOutput(i); });
  case plan::Convolution::InputGrad:
    return judgeSums(execution, X, x.countElements(),
                     filters * taps.countElements(),
                     [&](int64_t i) { return computeInputGradient(i); });
  case plan::Convolution::WeightGrad:
    return judgeSums(execution, Weight, weight.countElements(),
                     outputs.countElements(),
                     [&](int64_t i) { return computeWeightGradient(i); });
  }
  llvm_unreachable("all directions are handled");
}

::binade::Result<Judgement>
mlir::binade::judge(ModuleOp, const plan::Convolution &convolution,
                    const Execution &execution) {
  return ExactConvolution(convolution, execution).judge();
}
