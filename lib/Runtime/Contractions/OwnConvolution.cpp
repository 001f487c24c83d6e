//===- OwnConvolution.cpp - Convolutions without oneDNN -------------------===//
// Computes convolutions as matmuls of blocks (implicit GEMM). For the output
// and the gradient of the input, rows of a block are positions of one sample,
// and the contracted axis is (kernel position, channel); the left side is
// gathered from the activation, with zeros for padding. For the gradient of the
// weight, the contracted axis is (sample, output position).
//===----------------------------------------------------------------------===//

#include "Contraction.h"
#include "TiledOperation.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

using namespace binade;
using namespace binade::plan;

static std::int64_t product(const std::vector<std::int64_t> &sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t(1),
                         std::multiplies<>());
}

namespace {
using Position = std::array<std::int64_t, kMaxSpatialAxes>;

/// An activation: samples, channels and spatial positions in memory.
struct Activation {
  Address address;
  DType dtype;
  std::vector<std::int64_t> spatial;
  std::int64_t channels, positions, sampleStride, channelStride, positionStride;

  Activation(const View &view, const Memory &memory, std::int64_t channels,
             const std::vector<std::int64_t> &spatial, bool channelsLast)
      : address(memory.addressOf(view)), dtype(memory.typeOf(view)),
        spatial(spatial), channels(channels), positions(product(spatial)),
        sampleStride(channels * positions),
        channelStride(channelsLast ? 1 : positions),
        positionStride(channelsLast ? channels : 1) {}

  std::int64_t elementBytes() const {
    return static_cast<std::int64_t>(byteSize(dtype));
  }
  static Position split(std::int64_t index,
                        std::span<const std::int64_t> sizes) {
    Position p = {};
    for (std::size_t d = sizes.size(); d-- > 0; index /= sizes[d])
      p[d] = index % sizes[d];
    return p;
  }
};

class OwnConvolution : public TiledOperation {
public:
  OwnConvolution(const Convolution &c, const Memory &memory, unsigned threads);
  void run(const ExecutionContext &context) override;

private:
  std::int64_t inputOf(const Position &output, const Position &tap) const;
  std::int64_t outputOf(const Position &input, const Position &tap) const;
  void gather(const Activation &from, const std::byte *sample,
              std::int64_t firstChannel, std::int64_t channels,
              std::span<const Position> rows, std::int64_t tap, float *to,
              std::int64_t pitch, std::int64_t *offsets) const;
  void packWeights(std::int64_t group, float *to) const;
  void computeRows(std::int64_t item, float *memory) const;
  void computeWeights(std::int64_t item, float *memory) const;
  void runOverPositions(const ExecutionContext &context);

  Convolution c;
  Activation x, y;
  Address weight;
  DType weightType;
  std::optional<Address> bias;
  DType biasType = DType::F32;
  std::int64_t taps, groupInputs, groupOutputs;
  std::vector<Position> tapOffsets; ///< Kernel positions times dilation.
  // For the output and the input gradient: `from` is gathered, `to` is written.
  const Activation *from = nullptr, *to = nullptr;
  std::int64_t fromChannels = 0, toChannels = 0; ///< Per group.
  std::int64_t depth = 0;                        ///< taps * fromChannels
  std::int64_t rowBlock, columnBlock, depthBlock;
  std::byte *xBase = nullptr, *yBase = nullptr, *weightBase = nullptr;
  std::byte *fromBase = nullptr, *toBase = nullptr;
};
} // namespace

OwnConvolution::OwnConvolution(const Convolution &convolution,
                               const Memory &memory, unsigned threadCount)
    : TiledOperation(threadCount), c(convolution),
      x(c.x, memory, c.inChannels, c.input, c.channelsLast),
      y(c.y, memory, c.outChannels, c.output, c.channelsLast),
      weight(memory.addressOf(c.weight)), weightType(memory.typeOf(c.weight)),
      taps(product(c.kernel)), groupInputs(c.inChannels / c.groups),
      groupOutputs(c.outChannels / c.groups) {
  if (c.bias) {
    bias = memory.addressOf(*c.bias);
    biasType = memory.typeOf(*c.bias);
  }
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    Position offset = Activation::split(tap, c.kernel);
    for (std::size_t d = 0; d < c.kernel.size(); ++d)
      offset[d] *= c.dilations[d];
    tapOffsets.push_back(offset);
  }
  std::int64_t gathered;
  // Each gathered row also needs a position and an offset.
  constexpr auto rowFloats = static_cast<std::int64_t>(
      (sizeof(Position) + sizeof(std::int64_t)) / sizeof(float));
  if (c.direction == Convolution::WeightGrad) {
    rowBlock = std::min(16 * kernels.rows, roundUp(groupOutputs, kernels.rows));
    columnBlock = std::min<std::int64_t>(8 * kernels.columns,
                                         roundUp(groupInputs, kernels.columns));
    depthBlock = std::min<std::int64_t>(256, roundUp(y.positions, 8));
    gathered = depthBlock * (columnBlock + rowFloats);
    privateFloats = columnBlock * depthBlock; // right panels
  } else {
    bool forward = c.direction == Convolution::Forward;
    from = forward ? &x : &y;
    to = forward ? &y : &x;
    fromChannels = forward ? groupInputs : groupOutputs;
    toChannels = forward ? groupOutputs : groupInputs;
    depth = taps * fromChannels;
    columnBlock = roundUp(toChannels, kernels.columns);
    std::int64_t pieces = (depth + 383) / 384;
    depthBlock = roundUp((depth + pieces - 1) / pieces, 8);
    rowBlock = std::min(8 * kernels.rows, roundUp(to->positions, kernels.rows));
    gathered = rowBlock * (depthBlock + rowFloats);
    sharedFloats = roundUp(c.groups * columnBlock * (depth + 1), 16);
  }
  privateFloats += roundUp(rowBlock * depthBlock + 16, 16) // left panels
                   + rowBlock * columnBlock                // sums
                   + gathered;
  privateFloats = roundUp(privateFloats, 16);
}

/// Returns the input position that `output` reads at kernel position `tap`, or
/// -1 for padding.
std::int64_t OwnConvolution::inputOf(const Position &output,
                                     const Position &tap) const {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < c.input.size(); ++d) {
    std::int64_t at = output[d] * c.strides[d] + tap[d] - c.paddingLow[d];
    if (at < 0 || at >= c.input[d])
      return -1;
    index = index * c.input[d] + at;
  }
  return index;
}

/// Returns the output position that reads `input` at kernel position `tap`, or
/// -1 if there is none.
std::int64_t OwnConvolution::outputOf(const Position &input,
                                      const Position &tap) const {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < c.input.size(); ++d) {
    std::int64_t at = input[d] + c.paddingLow[d] - tap[d];
    if (c.strides[d] > 1) {
      if (at % c.strides[d] != 0)
        return -1;
      at /= c.strides[d];
    }
    if (at < 0 || at >= c.output[d])
      return -1;
    index = index * c.output[d] + at;
  }
  return index;
}

/// Gathers channels [firstChannel, firstChannel + channels) of the positions
/// that `rows` read at kernel position `tap` into rows of f32 at distance
/// `pitch`; zeros for padding.
void OwnConvolution::gather(const Activation &from, const std::byte *sample,
                            std::int64_t firstChannel, std::int64_t channels,
                            std::span<const Position> rows, std::int64_t tap,
                            float *to, std::int64_t pitch,
                            std::int64_t *offsets) const {
  const Position &at = tapOffsets[static_cast<std::size_t>(tap)];
  bool isInput = &from == &x;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::int64_t position =
        isInput ? inputOf(rows[i], at) : outputOf(rows[i], at);
    offsets[i] = position < 0 ? -1 : position * from.positionStride;
  }
  kernels.gather(
      {sample + firstChannel * from.channelStride * from.elementBytes(),
       from.dtype, offsets, static_cast<std::int64_t>(rows.size()), channels,
       from.channelStride, to, pitch});
}

/// Packs the weights of one group, all kernel positions, into right panels.
void OwnConvolution::packWeights(std::int64_t group, float *right) const {
  bool forward = c.direction == Convolution::Forward;
  auto size = static_cast<std::int64_t>(byteSize(weightType));
  std::byte *base =
      weightBase + group * groupOutputs * groupInputs * taps * size;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    tile::Source source{base + tap * size, weightType,
                        toChannels,        forward ? groupInputs * taps : taps,
                        fromChannels,      forward ? taps : groupInputs * taps};
    kernels.pack(source, kernels.columns,
                 right + tap * fromChannels * kernels.columns,
                 depth * kernels.columns);
  }
}

/// Computes one parallel task: a block of positions of one sample and group.
void OwnConvolution::computeRows(std::int64_t item, float *memory) const {
  std::int64_t blocks = (to->positions - 1) / rowBlock + 1;
  std::int64_t row = item % blocks * rowBlock;
  std::int64_t group = item / blocks % c.groups;
  std::int64_t sample = item / blocks / c.groups;
  std::int64_t rows = std::min(rowBlock, to->positions - row);
  float *left = memory;
  float *sums = left + roundUp(rowBlock * depthBlock + 16, 16);
  float *gathered = sums + rowBlock * columnBlock;
  auto *offsets =
      reinterpret_cast<std::int64_t *>(gathered + rowBlock * depthBlock);
  auto *positions = reinterpret_cast<Position *>(offsets + rowBlock);
  for (std::int64_t i = 0; i < rows; ++i)
    positions[i] = Activation::split(row + i, to->spatial);
  const float *right = scratch + group * columnBlock * (depth + 1);

  tile::PackedMatmul product;
  product.left = left;
  product.rightPitch = depth * kernels.columns;
  product.rows = rows;
  product.columns = toChannels;
  product.sums = sums;
  product.sumsPitch = columnBlock;
  std::int64_t offset = sample * to->sampleStride +
                        group * toChannels * to->channelStride +
                        row * to->positionStride;
  product.target = {toBase + offset * to->elementBytes(),
                    to->dtype,
                    to->positionStride,
                    to->channelStride,
                    bias ? right + columnBlock * depth : nullptr,
                    false};
  const std::byte *source =
      fromBase + sample * from->sampleStride * from->elementBytes();
  for (std::int64_t start = 0; start < depth; start += depthBlock) {
    product.depth = std::min(depthBlock, depth - start);
    for (std::int64_t d = start; d < start + product.depth;) {
      std::int64_t tap = d / fromChannels, channel = d % fromChannels;
      std::int64_t channels =
          std::min(fromChannels - channel, start + product.depth - d);
      gather(*from, source, group * fromChannels + channel, channels,
             {positions, static_cast<std::size_t>(rows)}, tap,
             gathered + (d - start), product.depth, offsets);
      d += channels;
    }
    tile::Source block{gathered,      DType::F32,    rows,
                       product.depth, product.depth, 1};
    kernels.pack(block, kernels.rows, left, product.depth * kernels.rows);
    product.right = right + start * kernels.columns;
    product.first = start == 0;
    product.last = start + product.depth == depth;
    kernels.multiply(product);
  }
}

/// Computes one parallel task: a block of output and input channels of the
/// weight gradient at one kernel position.
void OwnConvolution::computeWeights(std::int64_t item, float *memory) const {
  std::int64_t rowBlocks = (groupOutputs - 1) / rowBlock + 1;
  std::int64_t columnBlocks = (groupInputs - 1) / columnBlock + 1;
  std::int64_t row = item % rowBlocks * rowBlock;
  item /= rowBlocks;
  std::int64_t column = item % columnBlocks * columnBlock;
  item /= columnBlocks;
  std::int64_t tap = item % taps, group = item / taps;
  float *left = memory;
  float *sums = left + roundUp(rowBlock * depthBlock + 16, 16);
  float *right = sums + rowBlock * columnBlock;
  float *gathered = right + columnBlock * depthBlock;
  auto *offsets =
      reinterpret_cast<std::int64_t *>(gathered + columnBlock * depthBlock);
  auto *positions = reinterpret_cast<Position *>(offsets + depthBlock);

  tile::PackedMatmul product;
  product.left = left;
  product.right = right;
  product.rows = std::min(rowBlock, groupOutputs - row);
  product.columns = std::min(columnBlock, groupInputs - column);
  product.sums = sums;
  product.sumsPitch = columnBlock;
  auto size = static_cast<std::int64_t>(byteSize(weightType));
  std::int64_t out = group * groupOutputs + row;
  product.target = {weightBase +
                        ((out * groupInputs + column) * taps + tap) * size,
                    weightType,
                    groupInputs * taps,
                    taps,
                    nullptr,
                    false};
  for (std::int64_t sample = 0; sample < c.batch; ++sample) {
    const std::byte *input = xBase + sample * x.sampleStride * x.elementBytes();
    for (std::int64_t start = 0; start < y.positions; start += depthBlock) {
      product.depth = std::min(depthBlock, y.positions - start);
      for (std::int64_t i = 0; i < product.depth; ++i)
        positions[i] = Activation::split(start + i, y.spatial);
      gather(x, input, group * groupInputs + column, product.columns,
             {positions, static_cast<std::size_t>(product.depth)}, tap,
             gathered, product.columns, offsets);
      tile::Source columns{gathered, DType::F32,    product.columns,
                           1,        product.depth, product.columns};
      product.rightPitch = product.depth * kernels.columns;
      kernels.pack(columns, kernels.columns, right, product.rightPitch);
      std::int64_t offset = sample * y.sampleStride + out * y.channelStride +
                            start * y.positionStride;
      tile::Source rows{yBase + offset * y.elementBytes(),
                        y.dtype,
                        product.rows,
                        y.channelStride,
                        product.depth,
                        y.positionStride};
      kernels.pack(rows, kernels.rows, left, product.depth * kernels.rows);
      product.first = sample == 0 && start == 0;
      product.last =
          sample == c.batch - 1 && start + product.depth == y.positions;
      kernels.multiply(product);
    }
  }
}

void OwnConvolution::runOverPositions(const ExecutionContext &context) {
  bool forward = c.direction == Convolution::Forward;
  fromBase = forward ? xBase : yBase;
  toBase = forward ? yBase : xBase;
  context.team->parallelFor(
      context.threads, c.groups, [&](std::int64_t group, unsigned) {
        float *right = scratch + group * columnBlock * (depth + 1);
        packWeights(group, right);
        if (!bias)
          return;
        auto size = static_cast<std::int64_t>(byteSize(biasType));
        tile::Source source{bias->at(context.iteration) +
                                group * toChannels * size,
                            biasType,
                            toChannels,
                            1,
                            1,
                            0};
        kernels.pack(source, kernels.columns, right + columnBlock * depth,
                     kernels.columns);
      });
  std::int64_t blocks = (to->positions - 1) / rowBlock + 1;
  context.team->parallelFor(context.threads, c.batch * c.groups * blocks,
                            [&](std::int64_t item, unsigned thread) {
                              computeRows(item, privateMemory(thread));
                            });
}

void OwnConvolution::run(const ExecutionContext &context) {
  xBase = x.address.at(context.iteration);
  yBase = y.address.at(context.iteration);
  weightBase = weight.at(context.iteration);
  if (c.direction != Convolution::WeightGrad)
    return runOverPositions(context);
  std::int64_t items = c.groups * taps * ((groupOutputs - 1) / rowBlock + 1) *
                       ((groupInputs - 1) / columnBlock + 1);
  context.team->parallelFor(context.threads, items,
                            [&](std::int64_t item, unsigned thread) {
                              computeWeights(item, privateMemory(thread));
                            });
}

std::unique_ptr<Operation>
binade::createOwnConvolution(const Convolution &convolution,
                             const Memory &memory, unsigned threads) {
  return std::make_unique<OwnConvolution>(convolution, memory, threads);
}
