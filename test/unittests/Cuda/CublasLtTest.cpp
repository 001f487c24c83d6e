//===- CublasLtTest.cpp - Problems cuBLASLt supports or refuses -----------===//

#include "CublasLtDevice.h"

using namespace binade;
using namespace binade::cuda;
using testing::HasSubstr;

namespace {
struct CublasLtTest : CublasLtDevice {};
} // namespace

TEST_F(CublasLtTest, Tf32RoundsItsOperands) {
  MatmulProblem p;
  p.m = p.n = 1;
  p.k = 2;
  // 2^-11 is half an ulp of TF32 and rounds to even; more rounds up.
  std::vector<float> left = {1 + 0x1p-11f, 1 + 0x1.8p-11f}, right = {1, 1};
  DeviceMemory lhs = putF32(left), rhs = putF32(right), out = putF32({0});
  for (auto [isTf32, expected] :
       {std::pair(false, 2 + 0x1.4p-10f), std::pair(true, 2 + 0x1p-10f)}) {
    p.tf32 = isTf32;
    auto matmul = CublasLtMatmul::create(library, p, 0);
    ASSERT_TRUE(matmul);
    ASSERT_TRUE(matmul->run(
        {.lhs = lhs.get(), .rhs = rhs.get(), .out = out.get()}, {}));
    EXPECT_EQ(get(out, 1)[0], expected);
  }
}

TEST_F(CublasLtTest, UnsupportedPairsOfFp8FormatsAreRefused) {
  MatmulProblem right =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::BF16, 4, 32, 64);
  EXPECT_EQ(create(right), "");
  auto change = [&](auto edit) {
    MatmulProblem wrong = right;
    edit(wrong);
    return create(wrong);
  };
  const char *rule = "FP8 needs the left side as [m, k]";
  EXPECT_THAT(change([](auto &p) { p.transposeRhs = false; }),
              AllOf(HasSubstr("cuBLASLt 13.0.0 has no algorithm for F8_E4M3 "
                              "[4, 64] x F8_E4M3 [64, 32] -> BF16"),
                    HasSubstr(rule)));
  EXPECT_THAT(change([](auto &p) { p.transposeLhs = true; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.k = 72; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.n = 24; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.lhsStride = 72; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.lhs = p.rhs = DType::F8_E5M2; }),
              HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.rhs = DType::BF16; }), HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) {
                p.lhsScale = p.rhsScale = ScaleMode::Block128x128;
              }),
              HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) { p.lhsScale = ScaleMode::Vec128; }),
              HasSubstr(rule));
  EXPECT_THAT(change([](auto &p) {
                p.lhsScale = p.rhsScale = ScaleMode::Vec128;
                p.out = DType::F8_E4M3;
              }),
              HasSubstr(rule));
}

TEST_F(CublasLtTest, Fp8IsRefusedOnOlderDevices) {
  start("capability=80");
  EXPECT_THAT(
      create(makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::BF16, 4, 32, 64)),
      HasSubstr("FP8 needs compute capability 8.9, cuda:0 (Simulated H200) has "
                "8.0"));
}

TEST_F(CublasLtTest, BlockScalesAreRefusedOnOtherArchitectures) {
  MatmulProblem p =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::BF16, 4, 16, 128);
  p.lhsScale = p.rhsScale = ScaleMode::Vec128;
  EXPECT_EQ(create(p), "");
  for (const char *capability : {"capability=89", "capability=100"}) {
    start(capability);
    EXPECT_THAT(create(p),
                HasSubstr("block scales need compute capability 9.0"));
  }
}

TEST_F(CublasLtTest, UnsupportedTypesAreRefused) {
  MatmulProblem p;
  p.m = p.n = p.k = 16;
  p.lhs = DType::F64;
  EXPECT_THAT(create(p), HasSubstr("has no F64 for F64 [16, 16] x F32"));
  p.lhs = DType::BF16;
  EXPECT_THAT(create(p), HasSubstr("has no algorithm for BF16 [16, 16] x F32"));
}

TEST_F(CublasLtTest, GeluNeedsRowsOfAMultipleOfEight) {
  MatmulProblem p;
  p.m = p.n = p.k = 12;
  p.lhs = p.rhs = p.out = p.bias = p.aux = DType::BF16;
  p.epilogue = Epilogue::Bias;
  EXPECT_EQ(create(p), "");
  p.epilogue = Epilogue::GeluBias;
  EXPECT_THAT(create(p), HasSubstr("need n as a multiple of 8"));
}

TEST_F(CublasLtTest, UnalignedAddressesAreRefused) {
  MatmulProblem p =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::BF16, 4, 16, 16);
  auto matmul = CublasLtMatmul::create(library, p, 0);
  ASSERT_TRUE(matmul);
  auto memory = device->allocate(4096);
  Address start = memory->get();
  auto done =
      matmul->run({.lhs = start + 8, .rhs = start + 1024, .out = start + 2048},
                  {"matmul", "MatMul 'm'"});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().part, "MatMul 'm'");
  EXPECT_THAT(done.error().message, HasSubstr("CUBLAS_STATUS_INVALID_VALUE"));
  EXPECT_FALSE(device->hasFailed());
}

TEST_F(CublasLtTest, BlockScalesNeedARecentLibrary) {
  start("cublaslt=120804");
  MatmulProblem p =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::BF16, 4, 16, 128);
  EXPECT_EQ(create(p), "");
  p.lhsScale = p.rhsScale = ScaleMode::Vec128;
  EXPECT_THAT(create(p), HasSubstr("cuBLASLt 12.8.4 has no block scales, "
                                   "which need 12.9 or newer,"));
}

TEST_F(CublasLtTest, AlgorithmsAreRecorded) {
  MatmulProblem p;
  p.m = p.n = p.k = 16;
  auto chosen = CublasLtMatmul::create(library, p, 1 << 20);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->getWorkspaceBytes(), 4096u);
  EXPECT_EQ(chosen->describe(),
            "cublaslt 13.0.0 id 1 tile 20 stages 1 split-k 1 reduction 2 "
            "swizzle 1 inner 1 cluster 1");
  std::string text = formatAlgorithm(chosen->getAlgorithm());
  EXPECT_EQ(text.size(), 128u);
  auto read = parseAlgorithm(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, chosen->getAlgorithm());
  EXPECT_FALSE(parseAlgorithm(text.substr(1)));
  EXPECT_FALSE(parseAlgorithm("g" + text.substr(1)));
  auto again = CublasLtMatmul::create(library, p, *read, 1 << 20);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->getWorkspaceBytes(), 4096u);
  // Too little workspace, then an algorithm of another library.
  EXPECT_FALSE(CublasLtMatmul::create(library, p, *read, 100));
  // An algorithm that rounds partial sums to the result's type.
  (*read)[2] = 4;
  EXPECT_FALSE(CublasLtMatmul::create(library, p, *read, 1 << 20));
  (*read)[0] = 1;
  auto other = CublasLtMatmul::create(library, p, *read, 1 << 20);
  ASSERT_FALSE(other);
  EXPECT_THAT(render(other.error()),
              HasSubstr("does not have the algorithm that was recorded"));
  // An algorithm that needs no workspace.
  EXPECT_EQ(CublasLtMatmul::create(library, p, 0)->getWorkspaceBytes(), 0u);
}

TEST_F(CublasLtTest, MatmulsAreCapturedInGraphs) {
  MatmulProblem p;
  p.m = p.n = p.k = 1;
  auto matmul = CublasLtMatmul::create(library, p, 0);
  DeviceMemory x = putF32({3}), y = putF32({4}), z = putF32({0});
  auto graph = Graph::capture(*device, [&] {
    return matmul->run({.lhs = x.get(), .rhs = y.get(), .out = z.get()},
                       {"matmul", "MatMul 'm'"});
  });
  ASSERT_TRUE(graph);
  EXPECT_EQ(get(z, 1)[0], 0.0f);
  float five = 5;
  ASSERT_TRUE(device->upload(x.get(), &five, 4));
  ASSERT_TRUE(graph->launch());
  EXPECT_EQ(get(z, 1)[0], 20.0f);
}

TEST_F(CublasLtTest, AFailedMatmulIsNamed) {
  MatmulProblem p;
  p.m = p.n = p.k = 4;
  auto matmul = CublasLtMatmul::create(library, p, 0);
  DeviceMemory x = putF32(std::vector<float>(16)), y = putF32({1, 2});
  ASSERT_TRUE(matmul->run({.lhs = x.get(), .rhs = y.get(), .out = x.get()},
                          {"matmul", "MatMul 'm'"}));
  auto waited = device->wait();
  ASSERT_FALSE(waited);
  EXPECT_THAT(render(waited.error()), HasSubstr("'matmul' (MatMul 'm')"));
}

TEST_F(CublasLtTest, AMissingLibraryIsReported) {
  const char *names[] = {"libcublasLt-missing.so.1", "libmore.so.2"};
  auto opened = CublasLt::open(*device, names);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().exitCode, ExitCode::Device);
  EXPECT_THAT(render(opened.error()),
              AllOf(HasSubstr("tried libcublasLt-missing.so.1: cannot open"),
                    HasSubstr("tried libmore.so.2"),
                    HasSubstr("nvidia-cublas")));
  const char *others[] = {"libm.so.6"};
  EXPECT_THAT(CublasLt::open(*device, others).error().message,
              HasSubstr("has no function cublasLt"));
}

TEST_F(CublasLtTest, AMissingBiasFailsTheLaunch) {
  MatmulProblem p;
  p.m = p.n = p.k = 4;
  p.epilogue = Epilogue::Bias;
  auto matmul = CublasLtMatmul::create(library, p, 0);
  DeviceMemory x = putF32(std::vector<float>(16));
  ASSERT_TRUE(
      matmul->run({.lhs = x.get(), .rhs = x.get(), .out = x.get()}, {}));
  EXPECT_FALSE(device->wait());
}
