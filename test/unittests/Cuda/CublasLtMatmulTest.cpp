//===- CublasLtMatmulTest.cpp - Matmuls by cuBLASLt -----------------------===//
// These tests do not depend on the device.
//===----------------------------------------------------------------------===//

#include "CublasLtDevice.h"

using namespace binade;
using namespace binade::cuda;

namespace {
struct CublasLtMatmulTest : CublasLtDevice {};
} // namespace

TEST_F(CublasLtMatmulTest, MultipliesAllTypesAndLayouts) {
  struct Types {
    DType in, out;
  };
  for (auto [in, out] :
       {Types{DType::F32, DType::F32}, Types{DType::F16, DType::F16},
        Types{DType::F16, DType::F32}, Types{DType::BF16, DType::BF16},
        Types{DType::BF16, DType::F32}})
    for (bool transposeLhs : {false, true})
      for (bool transposeRhs : {false, true}) {
        MatmulProblem p;
        p.m = 3;
        p.n = 5;
        p.k = 7;
        p.transposeLhs = transposeLhs;
        p.transposeRhs = transposeRhs;
        p.lhs = p.rhs = in;
        p.out = out;
        Codes lhs = makeCodes(in, 21, 1), rhs = makeCodes(in, 35, 2);
        check(p, lhs, rhs, multiply(p, lhs, rhs), {});
      }
}

TEST_F(CublasLtMatmulTest, MultipliesBatchesWithStridesAndAccumulates) {
  MatmulProblem p;
  p.m = 3;
  p.n = 4;
  p.k = 5;
  p.batch = 2;
  p.lhsStride = 7;
  p.lhsBatchStride = 22;
  p.rhsBatchStride = 0; // Both matmuls of the batch share the operand.
  p.outBatchStride = 12;
  p.accumulate = true;
  Codes lhs = makeCodes(DType::F32, 44, 3), rhs = makeCodes(DType::F32, 20, 4),
        old = makeCodes(DType::F32, 24, 5);
  std::vector<double> expected = multiply(p, lhs, rhs);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] += old.values[i];
  check(p, lhs, rhs, expected, {}, old.bytes);
}

TEST_F(CublasLtMatmulTest, MultipliesFp8WithTensorScales) {
  constexpr DType e4m3 = DType::F8_E4M3, e5m2 = DType::F8_E5M2;
  struct Types {
    DType lhs, rhs, out;
  };
  std::vector<Types> all;
  for (DType out : {DType::F32, DType::BF16, DType::F16, e4m3})
    for (auto [lhs, rhs] :
         {std::pair(e4m3, e4m3), std::pair(e4m3, e5m2), std::pair(e5m2, e4m3)})
      all.push_back({lhs, rhs, out});
  all.push_back({e5m2, e4m3, e5m2});
  for (auto [left, right, out] : all) {
    MatmulProblem p = makeFp8(left, right, out, 5, 16, 32);
    Codes lhs = makeCodes(left, 160, 6), rhs = makeCodes(right, 512, 7);
    DeviceMemory lhsScale = putF32({0.5f}), rhsScale = putF32({3}),
                 outScale = putF32({0.25f}), amax = putF32({-1});
    std::vector<double> expected =
        multiply(p, lhs, rhs, [](auto...) { return 1.5; });
    double largest = 0;
    for (double &value : expected) {
      largest = std::max(largest, std::fabs(value));
      if (byteSize(out) == 1)
        value *= 0.25;
    }
    check(p, lhs, rhs, expected,
          {.lhsScale = lhsScale.get(),
           .rhsScale = rhsScale.get(),
           .outScale = outScale.get(),
           .outAmax = amax.get()});
    EXPECT_NEAR(get(amax, 1)[0], byteSize(out) == 1 ? largest : -1,
                8 * *std::max_element(slack.begin(), slack.end()));
  }
}

TEST_F(CublasLtMatmulTest, Fp8Saturates) {
  MatmulProblem p =
      makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::F8_E4M3, 1, 16, 16);
  Codes ones = {std::vector<double>(256, 1), std::string(256, '\x38')};
  DeviceMemory scale = putF32({1}), large = putF32({1000}), amax = putF32({0});
  check(p, {std::vector<double>(16, 1), std::string(16, '\x38')}, ones,
        std::vector<double>(16, 448),
        {.lhsScale = scale.get(),
         .rhsScale = large.get(),
         .outScale = scale.get(),
         .outAmax = amax.get()});
  EXPECT_EQ(get(amax, 1)[0], 16000.0f);
}

TEST_F(CublasLtMatmulTest, MultipliesFp8WithBlockScales) {
  constexpr ScaleMode vectors = ScaleMode::Vec128,
                      blocks = ScaleMode::Block128x128;
  struct Case {
    ScaleMode lhs, rhs;
    std::int64_t m, n;
  };
  // The last block of k has 16 elements.
  constexpr std::int64_t k = 272;
  for (auto [left, right, m, n] :
       {Case{vectors, vectors, 8, 16}, Case{blocks, vectors, 132, 16},
        Case{vectors, blocks, 4, 144}}) {
    MatmulProblem p =
        makeFp8(DType::F8_E4M3, DType::F8_E4M3, DType::F32, m, n, k);
    p.lhsScale = left;
    p.rhsScale = right;
    Codes lhs = makeCodes(p.lhs, static_cast<std::size_t>(m * k), 8),
          rhs = makeCodes(p.rhs, static_cast<std::size_t>(n * k), 9);
    // 3 blocks of k, so rows of scales are padded to 4. The padding is never
    // read.
    std::vector<float> lhsScales(3 * 132), rhsScales(3 * 144);
    for (std::size_t i = 0; i < lhsScales.size(); ++i)
      lhsScales[i] = 1 + static_cast<float>(i % 29) / 8;
    for (std::size_t i = 0; i < rhsScales.size(); ++i)
      rhsScales[i] = 2 - static_cast<float>(i % 23) / 16;
    auto find = [](ScaleMode mode, const std::vector<float> &scales,
                   std::int64_t rows, std::int64_t row, std::int64_t l) {
      std::int64_t at =
          mode == vectors ? l / 128 * rows + row : row / 128 * 4 + l / 128;
      return double(scales[static_cast<std::size_t>(at)]);
    };
    DeviceMemory lhsScale = putF32(lhsScales), rhsScale = putF32(rhsScales);
    check(p, lhs, rhs,
          multiply(p, lhs, rhs,
                   [&, left = left, right = right, m = m,
                    n = n](std::int64_t i, std::int64_t j, std::int64_t l) {
                     return find(left, lhsScales, m, i, l) *
                            find(right, rhsScales, n, j, l);
                   }),
          {.lhsScale = lhsScale.get(), .rhsScale = rhsScale.get()});
  }
}
