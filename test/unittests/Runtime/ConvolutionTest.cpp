//===- ConvolutionTest.cpp - Convolutions and gradients -------------------===//

#include "OneRecord.h"
#include <array>
#include <cstdlib>

using namespace binade;
using namespace binade::plan;

namespace {
struct Case {
  std::string name;
  std::int64_t batch = 2, in = 3, out = 5, groups = 1;
  std::vector<std::int64_t> input = {7, 6}, kernel = {3, 2}, strides = {1, 1},
                            dilations = {1, 1}, low = {0, 0}, high = {0, 0};
  DType type = DType::F32, written = DType::F32;
  bool bias = false;
};

/// Maps (sample, channel, position) to an index in memory.
struct Activation {
  std::int64_t channels;
  std::vector<std::int64_t> spatial;
  bool channelsLast;

  std::int64_t positions() const {
    std::int64_t count = 1;
    for (std::int64_t size : spatial)
      count *= size;
    return count;
  }
  std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t p) const {
    return channelsLast ? (n * positions() + p) * channels + c
                        : (n * channels + c) * positions() + p;
  }
};

class ConvolutionRun {
public:
  ConvolutionRun(const Case &c, Convolution::Direction direction,
                 bool channelsLast, Contraction contraction,
                 unsigned threads = 2)
      : direction(direction) {
    convolution.direction = direction;
    convolution.batch = c.batch;
    convolution.inChannels = c.in;
    convolution.outChannels = c.out;
    convolution.groups = c.groups;
    convolution.input = c.input;
    convolution.kernel = c.kernel;
    convolution.strides = c.strides;
    convolution.dilations = c.dilations;
    convolution.paddingLow = c.low;
    convolution.paddingHigh = c.high;
    convolution.channelsLast = channelsLast;
    for (std::size_t d = 0; d < c.input.size(); ++d)
      convolution.output.push_back((c.input[d] + c.low[d] + c.high[d] -
                                    (c.kernel[d] - 1) * c.dilations[d] - 1) /
                                       c.strides[d] +
                                   1);
    x = {c.in, c.input, channelsLast};
    y = {c.out, convolution.output, channelsLast};
    taps = Activation{1, c.kernel, false}.positions();
    auto type = [&](Convolution::Direction written) {
      return written == direction ? c.written : c.type;
    };
    convolution.x.buffer = tensors.add(type(Convolution::InputGrad),
                                       {c.batch * c.in * x.positions()});
    convolution.weight.buffer = tensors.add(type(Convolution::WeightGrad),
                                            {c.out * c.in / c.groups * taps});
    convolution.y.buffer = tensors.add(type(Convolution::Forward),
                                       {c.batch * c.out * y.positions()});
    std::uint32_t bias = tensors.add(c.type, {c.out});
    if (c.bias && direction == Convolution::Forward)
      convolution.bias = View{bias, 0, {}, {}};
    tensors.plan.records = {{"convolution", convolution}};
    program.emplace(tensors.load(contraction, threads));
    for (std::uint32_t t = 0; t < 4; ++t)
      fillExactly(*program, t);
    EXPECT_TRUE(program->run());
  }

  /// Compares each result with the sum in f64, within the error bound of a sum
  /// in f32.
  void expectBound() {
    std::vector<double> sums, magnitudes, terms;
    std::uint32_t written = direction == Convolution::Forward     ? 2
                            : direction == Convolution::InputGrad ? 0
                                                                  : 1;
    Tensor result = tensorOf(*program, written);
    std::size_t count = result.bytes.size() / byteSize(result.dtype);
    sums.resize(count);
    magnitudes.resize(count);
    terms.resize(count);
    std::array<Tensor, 3> values = {
        tensorOf(*program, 0), tensorOf(*program, 1), tensorOf(*program, 2)};
    forEachTerm([&](std::array<std::int64_t, 3> index) {
      double term = 1;
      for (std::uint32_t t = 0; t < 3; ++t)
        if (t != written)
          term *= readElement(values[t], index[t]);
      auto i = static_cast<std::size_t>(index[written]);
      sums[i] += term;
      magnitudes[i] += std::abs(term);
      terms[i] += 1;
    });
    if (convolution.bias)
      for (std::int64_t n = 0; n < convolution.batch; ++n)
        for (std::int64_t o = 0; o < convolution.outChannels; ++o)
          for (std::int64_t p = 0; p < y.positions(); ++p) {
            double bias = readElement(tensorOf(*program, 3), o);
            auto i = static_cast<std::size_t>(y.at(n, o, p));
            sums[i] += bias;
            magnitudes[i] += std::abs(bias);
          }
    int wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      double bound = (terms[i] + 2) * 0x1p-24 * magnitudes[i];
      double got = readElement(result, static_cast<std::int64_t>(i));
      wrong += !(std::abs(got - sums[i]) <=
                 bound + halfUlp(result.dtype, std::abs(sums[i]) + bound));
    }
    EXPECT_EQ(wrong, 0) << "of " << count;
  }

  std::vector<std::byte> bytes(std::uint32_t tensor) const {
    Tensor t = tensorOf(*program, tensor);
    return {t.bytes.begin(), t.bytes.end()};
  }
  std::string implementation() const {
    return program->getProfile().records[0].implementation;
  }

private:
  /// Calls `visit` with the indices of x, weight and y of every multiply-add.
  template <typename Visit> void forEachTerm(Visit visit) {
    const Convolution &c = convolution;
    std::int64_t in = c.inChannels / c.groups, out = c.outChannels / c.groups;
    for (std::int64_t p = 0; p < y.positions(); ++p)
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        std::int64_t q = position(p, tap);
        if (q < 0)
          continue;
        for (std::int64_t n = 0; n < c.batch; ++n)
          for (std::int64_t o = 0; o < c.outChannels; ++o)
            for (std::int64_t i = 0; i < in; ++i)
              visit({x.at(n, o / out * in + i, q), (o * in + i) * taps + tap,
                     y.at(n, o, p)});
      }
  }

  /// Returns the input position that output `p` reads at `tap`, or -1
  /// (padding).
  std::int64_t position(std::int64_t p, std::int64_t tap) const {
    const Convolution &c = convolution;
    std::int64_t index = 0, factor = 1;
    for (std::size_t d = c.input.size(); d-- > 0;) {
      std::int64_t at = p % c.output[d] * c.strides[d] +
                        tap % c.kernel[d] * c.dilations[d] - c.paddingLow[d];
      if (at < 0 || at >= c.input[d])
        return -1;
      index += at * factor;
      factor *= c.input[d];
      p /= c.output[d];
      tap /= c.kernel[d];
    }
    return index;
  }

  Convolution::Direction direction;
  Convolution convolution;
  Activation x, y;
  std::int64_t taps;
  Tensors tensors;
  std::optional<Program> program;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"plain"});
  Case bias{"bias"};
  bias.bias = true;
  all.push_back(bias);
  Case padded{"padded, strided"};
  padded.strides = {2, 3};
  padded.low = {1, 0};
  padded.high = {2, 1};
  all.push_back(padded);
  Case dilated{"dilated"};
  dilated.input = {9, 8};
  dilated.dilations = {2, 3};
  dilated.low = dilated.high = {2, 3};
  all.push_back(dilated);
  Case grouped{"groups"};
  grouped.in = 6;
  grouped.out = 4;
  grouped.groups = 2;
  grouped.bias = true;
  all.push_back(grouped);
  Case depthwise{"depthwise"};
  depthwise.in = depthwise.out = depthwise.groups = 4;
  all.push_back(depthwise);
  Case line{"one axis"};
  line.input = {40};
  line.kernel = {5};
  line.strides = {2};
  line.dilations = {1};
  line.low = {2};
  line.high = {1};
  all.push_back(line);
  Case volume{"three axes"};
  volume.input = {4, 5, 6};
  volume.kernel = {2, 3, 2};
  volume.strides = {1, 2, 1};
  volume.dilations = {1, 1, 2};
  volume.low = {0, 1, 1};
  volume.high = {1, 1, 0};
  all.push_back(volume);
  // Rows, columns and depth exceed one block of Binade's implementation.
  Case large{"large"};
  large.batch = 1;
  large.in = 70;
  large.out = 40;
  large.input = {18, 17};
  large.kernel = {3, 3};
  large.low = large.high = {1, 1};
  all.push_back(large);
  Case pointwise{"pointwise"};
  pointwise.in = 300;
  pointwise.out = 130;
  pointwise.kernel = {1, 1};
  pointwise.input = {5, 5};
  all.push_back(pointwise);
  return all;
}

constexpr Convolution::Direction directions[] = {
    Convolution::Forward, Convolution::InputGrad, Convolution::WeightGrad};
} // namespace

static void expectBounds(Contraction contraction) {
  for (const Case &c : cases())
    for (Convolution::Direction direction : directions)
      for (bool channelsLast : {false, true}) {
        SCOPED_TRACE(c.name + ", direction " + std::to_string(direction) +
                     (channelsLast ? ", channels last" : ""));
        ConvolutionRun(c, direction, channelsLast, contraction).expectBound();
      }
}

TEST(Convolution, OurImplementationKeepsTheErrorBound) {
  expectBounds(Contraction::Own);
}

TEST(Convolution, OneDnnKeepsTheErrorBound) {
  if (oneDnnVersion().empty())
    GTEST_SKIP() << "libdnnl.so.2 was not found";
  expectBounds(Contraction::Library);
}

TEST(Convolution, NarrowTypesAreRoundedOnce) {
  for (DType type : {DType::BF16, DType::F16})
    for (DType written : {type, DType::F32})
      for (Convolution::Direction direction : directions)
        for (Contraction contraction : {Contraction::Own, Contraction::Auto}) {
          Case c{"narrow"};
          c.in = c.out = 16;
          c.type = type;
          c.written = written;
          c.low = c.high = {1, 1};
          c.bias = true;
          SCOPED_TRACE(std::string(name(type)) + " to " +
                       std::string(name(written)));
          ConvolutionRun(c, direction, true, contraction).expectBound();
        }
}

TEST(Convolution, OurImplementationHasTheSameBitsForAnyThreadsAndLayout) {
  Case c = cases()[8];
  for (Convolution::Direction direction : directions) {
    std::uint32_t written = direction == Convolution::Forward     ? 2
                            : direction == Convolution::InputGrad ? 0
                                                                  : 1;
    for (bool channelsLast : {false, true}) {
      auto run = [&](unsigned threads) {
        return ConvolutionRun(c, direction, channelsLast, Contraction::Own,
                              threads)
            .bytes(written);
      };
      EXPECT_EQ(run(1), run(3));
    }
  }
}

TEST(Convolution, OneDnnHasOptimizedKernelsForResNets) {
  if (oneDnnVersion().empty())
    GTEST_SKIP() << "libdnnl.so.2 was not found";
  if (std::getenv("BINADE_CONTRACTION"))
    GTEST_SKIP() << "BINADE_CONTRACTION selects the implementation";
  for (DType type : fastTypes())
    for (Convolution::Direction direction : directions)
      for (std::int64_t stride : {1, 2}) {
        Case c{"resnet"};
        c.in = 16;
        c.out = 32;
        c.input = {16, 16};
        c.kernel = {3, 3};
        c.low = c.high = {1, 1};
        c.strides = {stride, stride};
        c.type = c.written = type;
        std::string name =
            ConvolutionRun(c, direction, true, Contraction::Library)
                .implementation();
        EXPECT_TRUE(name.starts_with("onednn")) << name;
      }
}
