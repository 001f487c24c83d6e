//===- GpuCostsTest.cpp - Predicted times on a GPU ------------------------===//
// Expected times were measured on an H100: benchmarks/gpu/results/rates, and
// the profiles of steps in benchmarks/gpu/results.
//===----------------------------------------------------------------------===//

#include "binade/Costs/GpuCosts.h"
#include "binade/Target/CUDA.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::binade;

namespace {
struct GpuCostsTest : testing::Test {
  const GpuCosts &find(StringRef chip = "sm_90") {
    const GpuCosts *costs = GpuCosts::find(chip, &context);
    EXPECT_TRUE(costs) << chip.str();
    return *costs;
  }
  double predictUs(const MatmulShape &shape) {
    return 1e6 * find().predictMatmul(shape);
  }

  MLIRContext context;
};

TEST_F(GpuCostsTest, HasRatesOfAllChips) {
  for (const CudaChip &chip : getCudaChips())
    EXPECT_GT(find(chip.name).getRates().memory, 5e11);
  EXPECT_FALSE(GpuCosts::find("sm_1", &context));
  EXPECT_FALSE(GpuCosts::find("", &context));
}

TEST_F(GpuCostsTest, PredictsMeasuredMatmuls) {
  // The head of GPT-2, for 256 and 4096 rows at a time.
  EXPECT_NEAR(predictUs({256, 50304, 768}), 42.8, 0.1 * 42.8);
  EXPECT_NEAR(predictUs({4096, 50304, 768}), 467.8, 0.1 * 467.8);
  // A projection of Llama, in bf16 and FP8.
  EXPECT_NEAR(predictUs({16384, 2048, 2048}), 188.2, 0.1 * 188.2);
  EXPECT_NEAR(predictUs({16384, 2048, 2048, 1, 1}), 119.8, 0.1 * 119.8);
}

/// Nine of ten matmuls with 1024 rows or more, each from all others.
TEST_F(GpuCostsTest, PredictsMeasuredMatmulsFromTheOthers) {
  constexpr int64_t kRows = 1024;
  unsigned all = 0, within = 0;
  for (auto [index, matmul] : llvm::enumerate(find().getRates().matmuls)) {
    if (std::min(matmul.m, matmul.k) < kRows)
      continue;
    GpuRates others = find().getRates();
    others.matmuls.erase(others.matmuls.begin() + index);
    double seconds = GpuCosts(others).predictMatmul(
        {matmul.m, matmul.n, matmul.k, 1, unsigned(matmul.bytes)});
    ++all;
    within += std::abs(1e6 * seconds / matmul.us - 1) <= 0.15;
  }
  EXPECT_GT(all, 60u);
  EXPECT_GE(within, 0.9 * all);
}

TEST_F(GpuCostsTest, PredictsMatmulsOfStepsThatAreNotInTheTable) {
  // Results in f32, and the accumulated gradient of the weight of a head.
  EXPECT_NEAR(predictUs({32768, 3072, 768, 1, 2, 4}), 278.7, 0.15 * 278.7);
  EXPECT_NEAR(predictUs({50304, 768, 256, 1, 2, 4, true}), 161.9, 0.15 * 161.9);
  // Both projections of an MLP of Llama, on average.
  EXPECT_NEAR(predictUs({16384, 8192, 2048}), 731.9, 0.15 * 731.9);
}

TEST_F(GpuCostsTest, PredictsPassesByTheirBytes) {
  // A copy of 256 MiB took 178.6 us.
  EXPECT_NEAR(1e6 * find().predictPass(2 * 256e0 * (1 << 20)), 178.6, 18);
  EXPECT_NEAR(1e6 * find().predictPass(0), 0.9, 0.1);
}

/// Expected microseconds are computed by hand from the laws in sm_90.yaml.
TEST_F(GpuCostsTest, PredictsGradientsOfAttention) {
  // GPT-2: 384 heads of 1024 x 1024 scores. The mask leaves 36 of 64 tiles of
  // 128 x 128 scores: 226492416 scores.
  AttentionShape gpt2{384, 1024, 1024, 64, 64, true};
  EXPECT_EQ(gpt2.countScores(), 226492416);
  // 226492416 (1.7717e-12 + 64 x 8.438e-15) + 393216 x 3.181e-10, and 70 us for
  // each part after the first.
  EXPECT_NEAR(1e6 * find().predictLibraryGradients(gpt2, 1), 648.672, 1e-3);
  EXPECT_NEAR(1e6 * find().predictLibraryGradients(gpt2, 4), 858.672, 1e-3);
  // 226492416 (1.8e-13 + 64 x 5.1e-14).
  EXPECT_NEAR(1e6 * find().predictKernelGradients(gpt2), 780.040, 1e-3);
  // Without a mask all scores are computed: 16 heads of 96 x 200, 128 columns.
  AttentionShape whole{16, 96, 200, 128, 128};
  EXPECT_EQ(whole.countScores(), 307200);
  EXPECT_NEAR(1e6 * find().predictLibraryGradients(whole, 1), 1.36466, 1e-5);
  EXPECT_NEAR(1e6 * find().predictKernelGradients(whole), 2.06070, 1e-5);
}

TEST_F(GpuCostsTest, CountsTheWorkspaceOfGradients) {
  // For each of 384 heads and every 128 of 1024 keys 1024 x 64 values in f32,
  // and 1024 more.
  AttentionShape gpt2{384, 1024, 1024, 64, 64, true};
  EXPECT_EQ(gpt2.countWorkspaceBytes(), 384u * 4 * (8 * 1024 * 64 + 1024));
  // With more than 64 columns, every 256 keys and 128 columns; 200 queries are
  // 256. Heads that share keys have gradients of 16 bits of their own.
  AttentionShape wide{2, 200, 300, 80, 96, false, true};
  EXPECT_EQ(wide.countWorkspaceBytes(),
            2u * (4 * (2 * 256 * 128 + 200) + 2 * 300 * (80 + 96)));
}

TEST_F(GpuCostsTest, HasNoLawForGradientsThatCudnnDoesNotCompute) {
  AttentionShape gpt2{384, 1024, 1024, 64, 64, true};
  for (StringRef chip : {"sm_80", "sm_89", "sm_100"}) {
    EXPECT_EQ(find(chip).predictLibraryGradients(gpt2, 1), 0) << chip.str();
    EXPECT_EQ(find(chip).predictKernelGradients(gpt2), 0) << chip.str();
  }
}

TEST_F(GpuCostsTest, FollowsTheRatesOfOtherChips) {
  // Matmuls of f32 operands have no matrix units, so they are slower.
  MatmulShape shape{8192, 8192, 8192};
  double bf16 = find().predictMatmul(shape);
  shape.bytes = 4;
  EXPECT_GT(find().predictMatmul(shape), 8 * bf16);
  shape.bytes = 2;
  EXPECT_GT(find("sm_80").predictMatmul(shape), 2 * bf16);
  EXPECT_LT(find("sm_100").predictMatmul(shape), bf16);
}
} // namespace
