//===- CudnnTest.cpp - Convolutions by cuDNN ------------------------------===//
//
// Expected values are f64 sums over windows. This file computes the positions
// of the windows independently of the runtime.
//
//===----------------------------------------------------------------------===//

#include "../../../lib/Runtime/Cuda/CudnnConvolution.h"
#include "Codes.h"
#include "SimulatedDevice.h"
#include <cmath>

using namespace binade;
using namespace binade::cuda;
using plan::Convolution;
using testing::HasSubstr;

namespace {
struct CudnnTest : SimulatedDevice {
  void SetUp() override {
    open();
    auto opened = Cudnn::open(*device);
    ASSERT_TRUE(opened) << render(opened.error());
    library = *std::move(opened);
  }
  void TearDown() override { library.reset(); }

  /// Returns the library's error for a problem; empty if it supports it.
  std::string create(const ConvolutionProblem &problem) {
    auto made = CudnnConvolution::create(library, problem, 1 << 20);
    if (made)
      return "";
    EXPECT_EQ(made.error().exitCode, ExitCode::Device);
    return render(made.error());
  }
  void check(const Convolution &c, DType type);

  std::shared_ptr<Cudnn> library;
};
} // namespace

/// A convolution of a 7 x 9 image with a 3 x 2 kernel. `stride` applies to the
/// first spatial axis, `dilation` to the second.
static Convolution makeConvolution(std::int64_t channels, std::int64_t outputs,
                                   std::int64_t groups, std::int64_t stride,
                                   std::int64_t dilation, std::int64_t padding,
                                   bool channelsLast = false) {
  Convolution c;
  c.batch = 2;
  c.inChannels = channels;
  c.outChannels = outputs;
  c.groups = groups;
  c.channelsLast = channelsLast;
  c.input = {7, 9};
  c.kernel = {3, 2};
  c.strides = {stride, 1};
  c.dilations = {1, dilation};
  c.paddingLow = c.paddingHigh = {padding, padding};
  for (std::size_t d = 0; d < 2; ++d)
    c.output.push_back(
        (c.input[d] + 2 * padding - ((c.kernel[d] - 1) * c.dilations[d] + 1)) /
            c.strides[d] +
        1);
  return c;
}

static ConvolutionProblem makeProblem(const Convolution &c, DType type) {
  ConvolutionProblem problem;
  problem.record = &c;
  problem.x = problem.weight = problem.y = type;
  return problem;
}

/// Checks the forward pass and both gradients on the same values.
void CudnnTest::check(const Convolution &convolution, DType type) {
  Convolution c = convolution;
  std::int64_t inputs = c.inChannels / c.groups,
               outputs = c.outChannels / c.groups, rows = c.input[0],
               columns = c.input[1], height = c.output[0], width = c.output[1];
  auto placeOf = [&](std::int64_t n, std::int64_t channel,
                     std::int64_t channels, std::int64_t i, std::int64_t j,
                     std::int64_t h, std::int64_t w) {
    return static_cast<std::size_t>(
        c.channelsLast ? ((n * h + i) * w + j) * channels + channel
                       : ((n * channels + channel) * h + i) * w + j);
  };
  auto count = [](std::initializer_list<std::int64_t> sizes) {
    std::int64_t all = 1;
    for (std::int64_t size : sizes)
      all *= size;
    return static_cast<std::size_t>(all);
  };
  test::Codes x = test::makeCodes(
                  type, count({c.batch, c.inChannels, rows, columns}), 1),
              w = test::makeCodes(
                  type,
                  count({c.outChannels, inputs, c.kernel[0], c.kernel[1]}), 2),
              y = test::makeCodes(
                  type, count({c.batch, c.outChannels, height, width}), 3);
  std::vector<double> ySums(y.values.size()), xSums(x.values.size()),
      wSums(w.values.size());
  for (std::int64_t n = 0; n < c.batch; ++n)
    for (std::int64_t o = 0; o < c.outChannels; ++o)
      for (std::int64_t l = 0; l < inputs; ++l)
        for (std::int64_t i = 0; i < height; ++i)
          for (std::int64_t j = 0; j < width; ++j)
            for (std::int64_t a = 0; a < c.kernel[0]; ++a)
              for (std::int64_t b = 0; b < c.kernel[1]; ++b) {
                std::int64_t row = i * c.strides[0] + a * c.dilations[0] -
                                   c.paddingLow[0],
                             column = j * c.strides[1] + b * c.dilations[1] -
                                      c.paddingLow[1];
                if (row < 0 || row >= rows || column < 0 || column >= columns)
                  continue;
                std::size_t atX = placeOf(n, o / outputs * inputs + l,
                                          c.inChannels, row, column, rows,
                                          columns),
                            atY = placeOf(n, o, c.outChannels, i, j, height,
                                          width),
                            atW = static_cast<std::size_t>(
                                ((o * inputs + l) * c.kernel[0] + a) *
                                    c.kernel[1] +
                                b);
                ySums[atY] += x.values[atX] * w.values[atW];
                xSums[atX] += y.values[atY] * w.values[atW];
                wSums[atW] += y.values[atY] * x.values[atX];
              }
  for (auto [direction, expected] :
       {std::pair(Convolution::Forward, &ySums),
        std::pair(Convolution::InputGrad, &xSums),
        std::pair(Convolution::WeightGrad, &wSums)}) {
    c.direction = direction;
    auto made =
        CudnnConvolution::create(library, makeProblem(c, type), 1 << 20);
    ASSERT_TRUE(made) << render(made.error());
    EXPECT_EQ(made->describe(), "cudnn 9.24.0 algorithm 1");
    auto upload = [&](const test::Codes &codes) {
      auto memory = device->allocate(codes.bytes.size());
      EXPECT_TRUE(device->upload(memory->get(), codes.bytes.data(),
                                 codes.bytes.size()));
      return *std::move(memory);
    };
    DeviceMemory xAt = upload(x), wAt = upload(w), yAt = upload(y);
    auto workspace = device->allocate(made->getWorkspaceBytes());
    Address out = direction == Convolution::Forward     ? yAt.get()
                  : direction == Convolution::InputGrad ? xAt.get()
                                                        : wAt.get();
    auto done = made->run({.x = xAt.get(),
                           .weight = wAt.get(),
                           .y = yAt.get(),
                           .workspace = workspace->get()},
                          {"convolution", "Conv 'c'"});
    ASSERT_TRUE(done) << render(done.error());
    ASSERT_TRUE(device->wait());
    std::string bytes(expected->size() * byteSize(type), 0);
    ASSERT_TRUE(device->read(bytes.data(), out, bytes.size()));
    std::vector<double> got = test::readCodes(type, bytes);
    // f64 sums, rounded once; the absolute bound is for tiny sums.
    double unit = std::ldexp(1, -test::bitsOf(type).fraction - 1);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], (*expected)[i],
                  unit * std::fabs((*expected)[i]) + 1e-7)
          << direction << ", " << i;
  }
}

TEST_F(CudnnTest, ComputesAllDirections) {
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    for (bool channelsLast : {false, true}) {
      check(makeConvolution(3, 4, 1, 1, 1, 0, channelsLast), type);
      check(makeConvolution(4, 6, 2, 2, 1, 1, channelsLast), type);
      check(makeConvolution(2, 4, 2, 1, 3, 2, channelsLast), type);
    }
}

TEST_F(CudnnTest, OneSpatialAxisIsSupported) {
  Convolution c;
  c.inChannels = 2;
  c.outChannels = 3;
  c.input = {8};
  c.kernel = {3};
  c.output = {4};
  c.strides = {2};
  c.dilations = {1};
  c.paddingLow = c.paddingHigh = {1};
  EXPECT_EQ(create(makeProblem(c, DType::F32)), "");
}

/// cuDNN pads both ends equally. Other padding at the end is supported only if
/// equal padding gives the same windows.
TEST_F(CudnnTest, OtherPaddingAtTheEndIsRefusedIfWindowsReachIt) {
  Convolution c = makeConvolution(3, 4, 1, 2, 1, 1);
  c.paddingHigh[0] = 0;
  ASSERT_EQ((c.input[0] + 1 - 3) / 2 + 1, c.output[0] - 1);
  c.output[0] -= 1;
  EXPECT_THAT(create(makeProblem(c, DType::F32)),
              HasSubstr("supports no convolution with other padding at the "
                        "end"));
  c.input[0] = 8;
  c.output[0] = 4;
  EXPECT_EQ(create(makeProblem(c, DType::F32)), "");
}

TEST_F(CudnnTest, MixedTypesAndRoundedBiasesAreRefused) {
  Convolution c = makeConvolution(3, 4, 1, 1, 1, 0);
  ConvolutionProblem problem = makeProblem(c, DType::BF16);
  problem.y = DType::F32;
  EXPECT_THAT(create(problem), HasSubstr("cuDNN 9.24.0 supports no convolution "
                                         "of BF16, BF16 and F32"));
  problem = makeProblem(c, DType::F64);
  EXPECT_THAT(create(problem), HasSubstr("of F64, F64 and F64"));
  problem = makeProblem(c, DType::BF16);
  EXPECT_EQ(create(problem), "");
  c.bias = plan::View{};
  EXPECT_THAT(create(problem),
              HasSubstr("with a bias that is rounded only once"));
  EXPECT_EQ(create(makeProblem(c, DType::F32)), "");
}

/// The simulated library lists a transform and a nondeterministic algorithm
/// before the one that is chosen.
TEST_F(CudnnTest, TooLittleWorkspaceIsRefused) {
  Convolution c = makeConvolution(3, 4, 1, 1, 1, 0);
  auto made = CudnnConvolution::create(library, makeProblem(c, DType::F32), 16);
  ASSERT_FALSE(made);
  EXPECT_THAT(render(made.error()),
              HasSubstr("supports no convolution of this shape with a "
                        "deterministic algorithm without transforms"));
}
