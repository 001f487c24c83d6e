//===- ManyTensorsTest.cpp - Multi-tensor kernels, kernels of scalars -----===//

#include "KernelTest.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::binade;

/// AdamW in the operation order of PyTorch.
static constexpr StringLiteral kAdamW = R"mlir(
  binade.optimizer @adamw {
    states = [#binade.setting<"m" = 0.0>, #binade.setting<"v" = 0.0>],
    hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>]}
  func.func private @adamw.scalars(%t: i64, %lr: f64) -> (f64, f64) {
    %beta = arith.constant 0.9 : f64
    %one = arith.constant 1.0 : f64
    %n = arith.sitofp %t : i64 to f64
    %power = math.powf %beta, %n : f64
    %c = arith.subf %one, %power : f64
    %step = arith.divf %lr, %c : f64
    %e = math.exp %lr : f64
    return %step, %e : f64, f64
  }
  func.func private @adamw.update(%p: f32, %g: f32, %m: f32, %v: f32,
                                  %step: f32, %eps: f32) -> (f32, f32, f32) {
    %w1 = arith.constant 0.1 : f32
    %w2 = arith.constant 0.001 : f32
    %b2 = arith.constant 0.999 : f32
    %d = arith.subf %g, %m : f32
    %dm = arith.mulf %w1, %d : f32
    %m1 = arith.addf %m, %dm : f32
    %kept = arith.mulf %b2, %v : f32
    %wg = arith.mulf %w2, %g : f32
    %gg = arith.mulf %wg, %g : f32
    %v1 = arith.addf %kept, %gg : f32
    %root = math.sqrt %v1 : f32
    %den = arith.addf %root, %eps : f32
    %s = arith.mulf %step, %m1 : f32
    %u = arith.divf %s, %den : f32
    %p1 = arith.subf %p, %u : f32
    return %p1, %m1, %v1 : f32, f32, f32
  }
)mlir";

namespace {
class ManyTensors : public KernelTest,
                    public ::testing::WithParamInterface<int64_t> {
protected:
  CompiledKernels compile(CpuLevel level) {
    CpuOptions options;
    options.level = level;
    FailureOr<CompiledKernels> compiled = compileKernels(*module, options);
    EXPECT_TRUE(succeeded(compiled)) << message;
    return succeeded(compiled) ? *compiled : CompiledKernels();
  }
  std::vector<float> drawFloats(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float &x : values)
      x = normal(generator);
    return values;
  }
  template <typename T> static GuardedBuffer toBuffer(const std::vector<T> &x) {
    return GuardedBuffer(ArrayRef(reinterpret_cast<const char *>(x.data()),
                                  x.size() * sizeof(T)));
  }
  template <typename T>
  static std::vector<T> fromBuffer(const GuardedBuffer &b) {
    std::vector<char> bytes = b.bytes();
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};
} // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, ManyTensors,
                         ::testing::Values(1, 3, 16, 17, 100, 257, 40000));

/// The kernel updates parameter and states in place, and changes no bit if
/// `skip` holds.
TEST_P(ManyTensors, UpdatesInPlaceOrNotAtAll) {
  parse((kAdamW + R"mlir(
    func.func private @k(%p: tensor<16xf32>, %g: tensor<16xbf16>, %m: tensor<16xf32>,
        %v: tensor<16xf32>, %step: tensor<f32>, %eps: tensor<f32>, %unscale: tensor<f32>,
        %clip: tensor<f32>, %skip: tensor<i1>)
        -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
        attributes {binade.kernel = #binade.schedule<multi_tensor>} {
      %new:3 = binade.optimizer_update @adamw %p, %g states(%m, %v) scalars(%step, %eps)
          factors(%unscale, %clip) skip(%skip)
        : (tensor<16xf32>, tensor<16xbf16>, tensor<16xf32>, tensor<16xf32>, tensor<f32>,
           tensor<f32>, tensor<f32>, tensor<f32>, tensor<i1>)
        -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
      return %new#0, %new#1, %new#2 : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
    })mlir")
            .str());
  ASSERT_TRUE(module);
  int64_t count = GetParam();
  std::vector<float> p = drawFloats(count), m = drawFloats(count),
                     v = drawFloats(count), g = drawFloats(count);
  std::vector<uint16_t> narrow(count);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &g[i], 4);
    narrow[i] = bits >> 16;
    bits &= 0xffff0000;
    std::memcpy(&g[i], &bits, 4);
    v[i] = std::abs(v[i]);
  }
  float step = 0.01f, eps = 1e-8f, unscale = 1.0f / 1024, clip = 0.37f;

  for (CpuLevel level : getLevels()) {
    LoadedKernels loaded(compile(level));
    auto run = reinterpret_cast<LoadedKernels::Items>(loaded.find("k"));
    for (char skip : {0, 1})
      for (bool inPlace : {true, false}) {
        GuardedBuffer pb = toBuffer(p), gb = toBuffer(narrow), mb = toBuffer(m),
                      vb = toBuffer(v), p1(count * 4), m1(count * 4),
                      v1(count * 4);
        void *buffers[] = {pb.data(),
                           gb.data(),
                           mb.data(),
                           vb.data(),
                           &step,
                           &eps,
                           &unscale,
                           &clip,
                           &skip,
                           inPlace ? pb.data() : p1.data(),
                           inPlace ? mb.data() : m1.data(),
                           inPlace ? vb.data() : v1.data()};
        for (int64_t begin = 0; begin < count; begin += kTensorBlock)
          run(buffers, begin, std::min(begin + kTensorBlock, count));
        auto np = fromBuffer<float>(inPlace ? pb : p1);
        auto nm = fromBuffer<float>(inPlace ? mb : m1);
        auto nv = fromBuffer<float>(inPlace ? vb : v1);
        for (int64_t i = 0; i < count; ++i) {
          float gradient = g[i] * unscale * clip;
          float em = m[i] + 0.1f * (gradient - m[i]);
          float ev = 0.999f * v[i] + (0.001f * gradient) * gradient;
          float ep = p[i] - (step * em) / (std::sqrt(ev) + eps);
          ASSERT_EQ(np[i], skip ? p[i] : ep) << i;
          ASSERT_EQ(nm[i], skip ? m[i] : em) << i;
          ASSERT_EQ(nv[i], skip ? v[i] : ev) << i;
        }
      }
  }
}

TEST_P(ManyTensors, ComputesGradientStatistics) {
  parse(R"mlir(
    func.func private @k(%g: tensor<16xf16>) -> (tensor<f64>, tensor<i1>)
        attributes {binade.kernel = #binade.schedule<multi_tensor>} {
      %s, %f = binade.gradient_statistics %g : (tensor<16xf16>) -> (tensor<f64>, tensor<i1>)
      return %s, %f : tensor<f64>, tensor<i1>
    })mlir");
  ASSERT_TRUE(module);
  // 1.5, -2.5 ... are exact in f16: 0x3e00 is 1.5.
  int64_t count = GetParam();
  std::vector<uint16_t> g(count);
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    g[i] = 0x3c00 + (generator() % 1024) + 0x8000 * (i % 3 == 0);
    double x = 1.0 + (g[i] & 0x3ff) / 1024.0;
    squares += x * x; // Exact: the squares have few bits.
  }
  for (CpuLevel level : getLevels()) {
    LoadedKernels loaded(compile(level));
    const KernelInfo &info = loaded.kernels.front();
    EXPECT_TRUE(info.hasFinish);
    EXPECT_EQ(info.grain, kTensorBlock);
    auto items = reinterpret_cast<LoadedKernels::Items>(loaded.find("k"));
    auto finish =
        reinterpret_cast<LoadedKernels::Finish>(loaded.find("k_finish"));
    // The last element is finite, an infinity, or NaN.
    for (uint16_t last : {g.back(), uint16_t(0xfc00), uint16_t(0x7e00)}) {
      std::vector<uint16_t> gradients = g;
      gradients.back() = last;
      GuardedBuffer gb = toBuffer(gradients);
      int64_t blocks = llvm::divideCeil(count, kTensorBlock);
      GuardedBuffer workspace(blocks * info.workspaceBytes);
      double sum = -1;
      char found = 7;
      void *buffers[] = {gb.data(), &sum, &found, workspace.data()};
      for (int64_t block = blocks; block-- > 0;)
        items(buffers, block * kTensorBlock,
              std::min((block + 1) * kTensorBlock, count));
      finish(buffers, blocks);
      if (last == g.back())
        EXPECT_EQ(sum, squares);
      EXPECT_EQ(found, last != g.back());
    }
  }
}

TEST_F(KernelTest, ComputesScalarsOfAnOptimizer) {
  check((kAdamW + R"mlir(
    func.func private @k(%step: tensor<i64>, %lr: tensor<f64>, %scale: tensor<f32>,
                         %count: tensor<i64>, %bad: tensor<i1>)
        -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<i64>)
        attributes {binade.kernel = #binade.schedule<scalars>} {
      %a, %b = binade.optimizer_scalars @adamw(%step, %lr)
          : (tensor<i64>, tensor<f64>) -> (tensor<f32>, tensor<f32>)
      %s, %c = binade.update_scale %scale, %count, %bad
          {growth = 2.0 : f64, backoff = 0.5 : f64, interval = 3 : i64}
          : (tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>)
      return %a, %b, %s, %c : tensor<f32>, tensor<f32>, tensor<f32>, tensor<i64>
    })mlir")
            .str(),
        {}, 4);
}
