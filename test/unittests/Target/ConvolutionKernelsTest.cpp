//===- ConvolutionKernelsTest.cpp - GPU kernels of convolutions -----------===//
//
// Compares with the definition: each output position and each position of the
// kernel that falls inside the input contribute one multiply-add.
//
//===----------------------------------------------------------------------===//

#include "RecordKernelsTest.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

namespace {
using Position = std::vector<int64_t>;

struct Case {
  GpuConvolution c;
  std::string why;
};

std::ostream &operator<<(std::ostream &stream, const Case &one) {
  return stream << one.why;
}

class Convolutions : public RecordKernelsTest,
                     public ::testing::WithParamInterface<Case> {};

int64_t countAll(const Position &sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

/// Calls `visit` with all positions in a box.
template <typename Visit> void forAll(const Position &sizes, Visit visit) {
  Position at(sizes.size());
  for (int64_t number = 0; number < countAll(sizes); ++number) {
    int64_t rest = number;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d])
      at[d] = rest % sizes[d];
    visit(at);
  }
}

int64_t number(const Position &at, const Position &sizes) {
  int64_t all = 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    all = all * sizes[d] + at[d];
  return all;
}
} // namespace

static std::vector<Case> getCases() {
  GpuConvolution plain;
  plain.batch = 2;
  plain.inChannels = 8;
  plain.outChannels = 12;
  plain.input = {7, 6};
  plain.kernel = {3, 3};
  plain.output = {7, 6};
  plain.strides = plain.dilations = plain.paddingLow = {1, 1};
  plain.alignment = 16;

  GpuConvolution line = plain;
  line.batch = 3;
  line.inChannels = 6;
  line.outChannels = 4;
  line.groups = 2;
  line.input = {11};
  line.kernel = {4};
  line.strides = line.dilations = {2};
  line.paddingLow = {3}; // The padding at the end is 1.
  line.output = {5};
  line.alignment = 4;

  GpuConvolution solid = plain;
  solid.batch = 1;
  solid.inChannels = 3;
  solid.outChannels = 5;
  solid.input = {4, 5, 3};
  solid.kernel = {2, 3, 1};
  solid.strides = {1, 2, 1};
  solid.dilations = {1, 1, 1};
  solid.paddingLow = {0, 1, 0};
  solid.output = {3, 3, 3};

  GpuConvolution wide = plain;
  wide.inChannels = 32;
  wide.outChannels = 40;
  wide.input = {5, 5};
  wide.strides = {2, 2};
  wide.output = {3, 3};

  GpuConvolution point = wide;
  point.kernel = {1, 1};
  point.paddingLow = {0, 0};

  GpuConvolution depthwise = plain;
  depthwise.groups = depthwise.inChannels = 8;
  depthwise.outChannels = 16;

  GpuConvolution parts = plain;
  parts.batch = 4;
  parts.inChannels = parts.outChannels = 4;
  parts.input = parts.output = {12, 12};
  parts.workspace = true;

  std::vector<Case> cases;
  for (auto [geometry, name] :
       {std::pair(&plain, "plain"), std::pair(&line, "line"),
        std::pair(&solid, "solid"), std::pair(&wide, "wide"),
        std::pair(&point, "point"), std::pair(&depthwise, "depthwise"),
        std::pair(&parts, "parts")})
    for (auto [direction, what] :
         {std::pair(GpuConvolution::Forward, "forward"),
          std::pair(GpuConvolution::InputGrad, "input"),
          std::pair(GpuConvolution::WeightGrad, "weight")})
      for (bool channelsLast : {false, true})
        for (DType dtype : {DType::F32, DType::BF16}) {
          GpuConvolution c = *geometry;
          c.direction = direction;
          c.channelsLast = channelsLast;
          c.x = c.weight = c.y = dtype;
          if (direction == GpuConvolution::Forward && channelsLast)
            c.bias = dtype;
          cases.push_back({c, std::string(name) + " " + what +
                                  (channelsLast ? " channels last " : " ") +
                                  std::string(::binade::name(dtype))});
        }
  return cases;
}

/// Returns random cases of any geometry, small enough to run many.
static std::vector<Case> drawCases(int count) {
  std::mt19937 generator(23);
  auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
  };
  constexpr DType kTypes[] = {DType::F32, DType::BF16, DType::F16};
  std::vector<Case> cases;
  while (static_cast<int>(cases.size()) < count) {
    GpuConvolution c;
    c.direction = static_cast<GpuConvolution::Direction>(draw(0, 2));
    c.channelsLast = draw(0, 1) != 0;
    c.batch = draw(1, 5);
    c.groups = draw(1, 3);
    c.inChannels = c.groups * draw(1, 24);
    c.outChannels = c.groups * draw(1, 24);
    c.x = kTypes[draw(0, 2)];
    c.weight = draw(0, 2) != 0 ? c.x : kTypes[draw(0, 2)];
    c.y = draw(0, 2) != 0 ? c.x : kTypes[draw(0, 2)];
    c.alignment = int64_t(4) << draw(0, 2);
    c.workspace = draw(0, 1) != 0;
    bool fits = true;
    for (int64_t axes = draw(1, 3); axes > 0; --axes) {
      int64_t size = draw(1, 9), kernel = draw(1, 4), stride = draw(1, 3),
              dilation = draw(1, 3), low = draw(0, 3), high = draw(0, 3);
      int64_t room = size + low + high - (kernel - 1) * dilation - 1;
      fits &= room >= 0;
      c.input.push_back(size);
      c.kernel.push_back(kernel);
      c.strides.push_back(stride);
      c.dilations.push_back(dilation);
      c.paddingLow.push_back(low);
      c.output.push_back(room / stride + 1);
    }
    if (fits)
      cases.push_back({c, "drawn " + std::to_string(cases.size())});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Drawn, Convolutions,
                         ::testing::ValuesIn(drawCases(60)));
INSTANTIATE_TEST_SUITE_P(Kernels, Convolutions,
                         ::testing::ValuesIn(getCases()));

TEST_P(Convolutions, AreWithinTheErrorOfSums) {
  const GpuConvolution &c = GetParam().c;
  int64_t inGroup = c.inChannels / c.groups,
          outGroup = c.outChannels / c.groups;
  // Returns the index in x or y of a channel's element at a position.
  auto find = [&](int64_t b, int64_t channel, const Position &at,
                  int64_t channels, const Position &sizes) {
    int64_t place = number(at, sizes), count = countAll(sizes);
    return c.channelsLast ? (b * count + place) * channels + channel
                          : (b * channels + channel) * count + place;
  };
  int64_t xCount = c.batch * c.inChannels * countAll(c.input),
          yCount = c.batch * c.outChannels * countAll(c.output),
          wCount = c.outChannels * inGroup * countAll(c.kernel);
  std::vector<char> xBytes = draw(xCount, c.x), wBytes = draw(wCount, c.weight),
                    yBytes = draw(yCount, c.y);
  std::vector<double> x = read(xBytes, c.x), w = read(wBytes, c.weight),
                      y = read(yBytes, c.y);
  bool isForward = c.direction == GpuConvolution::Forward,
       isInput = c.direction == GpuConvolution::InputGrad;
  DType out = isForward ? c.y : isInput ? c.x : c.weight;
  auto count = static_cast<size_t>(isForward ? yCount
                                   : isInput ? xCount
                                             : wCount);
  std::vector<double> sums(count), magnitudes(count), terms(count);
  auto add = [&](int64_t to, double term) {
    sums[to] += term;
    magnitudes[to] += std::abs(term);
    ++terms[to];
  };
  std::vector<std::vector<char>> memories = {
      isForward ? xBytes : yBytes, isForward || isInput ? wBytes : xBytes,
      isForward ? yBytes
      : isInput ? xBytes
                : wBytes};
  if (c.bias) {
    memories.push_back(draw(c.outChannels, *c.bias));
    std::vector<double> bias = read(memories.back(), *c.bias);
    for (int64_t b = 0; b < c.batch; ++b)
      forAll(c.output, [&](const Position &o) {
        for (int64_t channel = 0; channel < c.outChannels; ++channel)
          add(find(b, channel, o, c.outChannels, c.output), bias[channel]);
      });
  }
  for (int64_t b = 0; b < c.batch; ++b)
    forAll(c.output, [&](const Position &o) {
      forAll(c.kernel, [&](const Position &k) {
        Position i(o.size());
        for (size_t d = 0; d < o.size(); ++d) {
          i[d] = o[d] * c.strides[d] + k[d] * c.dilations[d] - c.paddingLow[d];
          if (i[d] < 0 || i[d] >= c.input[d])
            return;
        }
        for (int64_t oc = 0; oc < c.outChannels; ++oc)
          for (int64_t ic = 0; ic < inGroup; ++ic) {
            int64_t from = oc / outGroup * inGroup + ic;
            int64_t xAt = find(b, from, i, c.inChannels, c.input),
                    yAt = find(b, oc, o, c.outChannels, c.output),
                    wAt = (oc * inGroup + ic) * countAll(c.kernel) +
                          number(k, c.kernel);
            if (isForward)
              add(yAt, x[xAt] * w[wAt]);
            else if (isInput)
              add(xAt, y[yAt] * w[wAt]);
            else
              add(wAt, y[yAt] * x[xAt]);
          }
      });
    });
  if (c.workspace) {
    int64_t bytes = getWorkspaceBytes(c);
    if (bytes > 0)
      memories.emplace_back(bytes);
  }
  run(compileGpuConvolutions(UnknownLoc::get(&context), c, CudaOptions()),
      memories);
  if (HasFatalFailure())
    return;
  std::vector<double> result = read(memories[2], out);
  for (size_t at = 0; at < count; ++at)
    ASSERT_NEAR(result[at], sums[at],
                (terms[at] + 2) * getUnit(DType::F32) * magnitudes[at] +
                    getUnit(out) * std::abs(sums[at]))
        << at;
}

/// Gradients of weights have few elements, each a sum over all positions.
TEST_F(RecordKernelsTest, GradientsOfWeightsUseSplitK) {
  GpuConvolution c = getCases().back().c;
  c.direction = GpuConvolution::WeightGrad;
  EXPECT_GT(getWorkspaceBytes(c), 0);
  c.direction = GpuConvolution::Forward;
  c.batch = 1000;
  EXPECT_EQ(getWorkspaceBytes(c), 0);
}
