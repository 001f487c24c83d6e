//===- Convolution.cpp - Convolutions as contractions ---------------------===//
//
// Entries are the positions of the output (for the input's gradient, of the
// input), and terms are the positions in the filter with the channels that are
// summed. For the weight's gradient, entries are positions in the filter with
// channels, and terms are output positions. Channels are the last digit if they
// are contiguous in memory.
//
//===----------------------------------------------------------------------===//

#include "Contraction.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Describes a convolution, or a gradient of one, as a contraction.
class ConvolutionBuilder {
public:
  explicit ConvolutionBuilder(const GpuConvolution &c)
      : c(c), inChannels(c.inChannels / c.groups),
        outChannels(c.outChannels / c.groups),
        inputs(llvm::product_of(c.input)), outputs(llvm::product_of(c.output)),
        places(llvm::product_of(c.kernel)) {
    // Strides of x and y, along channels and along positions.
    xChannel = c.channelsLast ? 1 : inputs;
    yChannel = c.channelsLast ? 1 : outputs;
    xPosition = c.channelsLast ? c.inChannels : 1;
    yPosition = c.channelsLast ? c.outChannels : 1;
  }

  Contraction build();

private:
  static SmallVector<Axis> getAxes(ArrayRef<int64_t> sizes, int64_t inner) {
    SmallVector<Axis> axes(sizes.size());
    for (size_t d = sizes.size(); d-- > 0; inner *= sizes[d])
      axes[d] = {sizes[d], inner};
    return axes;
  }

  /// Returns axes of channels and of positions, in the order of x.
  SmallVector<Axis> with(Axis channels, ArrayRef<Axis> others) const {
    SmallVector<Axis> axes(others);
    axes.insert(c.channelsLast ? axes.end() : axes.begin(), channels);
    return axes;
  }
  SmallVector<Axis> withChannels(Axis channels, ArrayRef<int64_t> sizes) const {
    SmallVector<Axis> still;
    for (int64_t size : sizes)
      still.push_back({size, 0});
    return with(channels, still);
  }
  /// Returns the index of the first axis of positions in `withChannels`.
  unsigned firstPlace() const { return c.channelsLast ? 0 : 1; }

  SmallVector<Axis> batchAndPositions(int64_t stride, Axis positions) const {
    return {{c.batch, stride}, positions};
  }
  SmallVector<Axis> batchAndWindows(int64_t stride,
                                    ArrayRef<int64_t> sizes) const {
    SmallVector<Axis> axes = {{c.batch, stride}};
    for (int64_t size : sizes)
      axes.push_back({size, 0});
    return axes;
  }
  /// Returns the axes of the weight's filter positions with `channels`.
  SmallVector<Axis> weightPlaces(Axis channels) const {
    return with(channels, {{places, 1}});
  }

  Operand getX() const;
  Operand getY() const;
  Operand getWeight() const;

  const GpuConvolution &c;
  int64_t inChannels, outChannels; ///< Per group.
  int64_t inputs, outputs, places;
  int64_t xChannel, yChannel, xPosition, yPosition;
};
} // namespace

Operand ConvolutionBuilder::getX() const {
  Operand x;
  x.dtype = c.x;
  x.batch = {inChannels * xChannel};
  Axis channels = {inChannels, xChannel};
  int64_t each = c.inChannels * inputs;
  if (c.direction == GpuConvolution::InputGrad) { // It is the result.
    x.entries = batchAndPositions(each, {inputs, xPosition});
    x.terms = {channels};
    return x;
  }
  bool isForward = c.direction == GpuConvolution::Forward;
  (isForward ? x.entries : x.terms) = batchAndWindows(each, c.output);
  (isForward ? x.terms : x.entries) = withChannels(channels, c.kernel);
  for (auto [d, axis] : llvm::enumerate(getAxes(c.input, xPosition))) {
    auto position = static_cast<unsigned>(1 + d),
         place = static_cast<unsigned>(firstPlace() + d);
    Window window{position,         place, c.strides[d], c.dilations[d],
                  -c.paddingLow[d], 1,     axis.size,    axis.stride};
    if (!isForward) {
      std::swap(window.entryAxis, window.termAxis);
      std::swap(window.entryFactor, window.termFactor);
    }
    x.windows.push_back(window);
  }
  return x;
}

Operand ConvolutionBuilder::getY() const {
  Operand y;
  y.dtype = c.y;
  y.batch = {outChannels * yChannel};
  Axis channels = {outChannels, yChannel};
  int64_t each = c.outChannels * outputs;
  SmallVector<Axis> positions = batchAndPositions(each, {outputs, yPosition});
  if (c.direction == GpuConvolution::Forward) {
    y.entries = positions;
    y.terms = {channels};
    return y;
  }
  if (c.direction == GpuConvolution::WeightGrad) {
    y.entries = {channels};
    // The digits are the same as those of the windows of x.
    y.terms = batchAndWindows(each, c.output);
    llvm::copy(getAxes(c.output, yPosition), y.terms.begin() + 1);
    return y;
  }
  y.entries = batchAndWindows(each, c.input);
  y.terms = withChannels(channels, c.kernel);
  for (auto [d, axis] : llvm::enumerate(getAxes(c.output, yPosition)))
    y.windows.push_back({static_cast<unsigned>(1 + d),
                         static_cast<unsigned>(firstPlace() + d), 1,
                         -c.dilations[d], c.paddingLow[d], c.strides[d],
                         axis.size, axis.stride});
  return y;
}

Operand ConvolutionBuilder::getWeight() const {
  Operand weight;
  weight.dtype = c.weight;
  weight.batch = {outChannels * inChannels * places};
  Axis in = {inChannels, places}, out = {outChannels, inChannels * places};
  switch (c.direction) {
  case GpuConvolution::Forward:
  case GpuConvolution::WeightGrad:
    weight.entries = {out};
    weight.terms = weightPlaces(in);
    break;
  case GpuConvolution::InputGrad:
    weight.entries = {in};
    weight.terms = weightPlaces(out);
    break;
  }
  return weight;
}

Contraction ConvolutionBuilder::build() {
  Contraction all;
  all.batch = {c.groups};
  Operand x = getX(), y = getY(), weight = getWeight();
  for (Operand *operand : {&x, &y, &weight})
    operand->alignment = c.alignment;
  switch (c.direction) {
  case GpuConvolution::Forward:
    std::tie(all.m, all.n, all.k) =
        std::tuple(c.batch * outputs, outChannels, inChannels * places);
    std::tie(all.lhs, all.rhs, all.out) = std::tuple(x, weight, y);
    break;
  case GpuConvolution::InputGrad:
    std::tie(all.m, all.n, all.k) =
        std::tuple(c.batch * inputs, inChannels, outChannels * places);
    std::tie(all.lhs, all.rhs, all.out) = std::tuple(y, weight, x);
    break;
  case GpuConvolution::WeightGrad:
    std::tie(all.m, all.n, all.k) =
        std::tuple(outChannels, inChannels * places, c.batch * outputs);
    std::tie(all.lhs, all.rhs, all.out) = std::tuple(y, x, weight);
    break;
  }
  if (c.bias) {
    Operand &bias = all.bias.emplace();
    bias.dtype = *c.bias;
    bias.alignment = c.alignment;
    bias.entries = {{1, 0}};
    bias.terms = {{outChannels, 1}};
    bias.batch = {outChannels};
  }
  all.workspace = c.workspace;
  return all;
}

Contraction mlir::binade::getContraction(const GpuConvolution &convolution) {
  return ConvolutionBuilder(convolution).build();
}
