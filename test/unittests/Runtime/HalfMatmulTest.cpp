//===- HalfMatmulTest.cpp - Matmuls of f16 on AMX -------------------------===//
// Expected values are sums in f64.
//===----------------------------------------------------------------------===//

#include "../../../lib/Runtime/Attention/Kernels.h"
#include "OneRecord.h"
#include <limits>
#include <random>

using namespace binade;
using namespace binade::plan;

namespace {
struct Case {
  std::int64_t batch, m, n, k;
  bool transposeLhs = false, transposeRhs = false, broadcastRhs = false;
  bool bias = false, accumulate = false;
  DType out = DType::F32;
};

/// A matmul of random f16 with all 11 bits, some of which are subnormal.
class HalfMatmulRun {
public:
  explicit HalfMatmulRun(const Case &c, Contraction contraction,
                         unsigned threads = 2)
      : c(c) {
    std::uint32_t lhs = tensors.add(DType::F16, {c.batch * c.m * c.k});
    std::uint32_t rhs = tensors.add(DType::F16, {c.batch * c.k * c.n});
    std::uint32_t out = tensors.add(c.out, {c.batch * c.m * c.n});
    std::uint32_t bias = tensors.add(DType::F32, {c.n});
    Matmul matmul;
    matmul.lhs = {lhs, 0, strides(c.m, c.k, c.transposeLhs), {}};
    matmul.rhs = {rhs, 0, strides(c.k, c.n, c.transposeRhs), {}};
    if (c.broadcastRhs)
      matmul.rhs.strides[0] = 0;
    matmul.out = {out, 0, strides(c.m, c.n, false), {}};
    if (c.bias)
      matmul.bias = View{bias, 0, {1}, {}};
    matmul.batch = {c.batch};
    matmul.m = c.m;
    matmul.n = c.n;
    matmul.k = c.k;
    matmul.accumulate = c.accumulate;
    record = matmul;
    tensors.plan.records = {{"matmul", matmul}};
    program.emplace(tensors.load(contraction, threads));
    std::mt19937 random(1);
    for (std::uint32_t t : {lhs, rhs})
      for (std::uint16_t &x : tensorOf(*program, t).as<std::uint16_t>())
        x = random() % 20 == 0 ? random() & 0x83ff             // subnormal
                               : 0x2c00 + (random() & 0x93ff); // 2^-4 to 2^1
    for (std::uint32_t t : {out, bias})
      for (std::int64_t i = 0, n = count(t); i < n; ++i)
        writeElement(t, i, static_cast<float>(random() % 64) - 32);
  }

  Tensor get(std::uint32_t index) { return tensorOf(*program, index); }
  std::int64_t count(std::uint32_t index) {
    return static_cast<std::int64_t>(get(index).bytes.size() /
                                     byteSize(get(index).dtype));
  }
  void run() { ASSERT_TRUE(program->run()); }
  std::string implementation() const {
    return program->getProfile().records[0].implementation;
  }

  void expectBound() {
    std::vector<double> lhs = read(0), rhs = read(1), old = read(2),
                        bias = read(3);
    run();
    std::vector<double> got = read(2);
    int wrong = 0;
    for (std::size_t index = 0; index < got.size(); ++index) {
      auto place = static_cast<std::int64_t>(index);
      std::int64_t b = place / (c.m * c.n), i = place / c.n % c.m,
                   j = place % c.n;
      double sum = 0, magnitude = 0;
      auto add = [&](double term) {
        sum += term;
        magnitude += std::abs(term);
      };
      if (c.bias)
        add(bias[j]);
      if (c.accumulate)
        add(old[index]);
      for (std::int64_t l = 0; l < c.k; ++l)
        add(lhs[at(record.lhs, b, i, l)] * rhs[at(record.rhs, b, l, j)]);
      double bound = static_cast<double>(c.k + 2) * 0x1p-24 * magnitude;
      wrong += !(std::abs(got[index] - sum) <=
                 bound + halfUlp(c.out, std::abs(sum) + bound));
    }
    EXPECT_EQ(wrong, 0) << c.m << " x " << c.n << " x " << c.k;
  }

private:
  std::vector<std::int64_t> strides(std::int64_t rows, std::int64_t columns,
                                    bool transposed) const {
    return {rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
  }
  static std::int64_t at(const View &view, std::int64_t b, std::int64_t i,
                         std::int64_t j) {
    return b * view.strides[0] + i * view.strides[1] + j * view.strides[2];
  }
  std::vector<double> read(std::uint32_t index) {
    Tensor tensor = get(index);
    std::vector<double> values;
    for (std::int64_t i = 0, n = count(index); i < n; ++i)
      values.push_back(readElement(tensor, i));
    return values;
  }
  void writeElement(std::uint32_t tensor, std::int64_t i, float value) {
    if (get(tensor).dtype == DType::F32)
      get(tensor).as<float>()[i] = value;
    else
      get(tensor).as<std::uint16_t>()[i] = floatToF16(value);
  }

  Case c;
  Tensors tensors;
  Matmul record;
  std::optional<Program> program;
};

class HalfMatmul : public testing::Test {
protected:
  void SetUp() override {
    if (attention::getHighestLevel() != attention::Level::Amx)
      GTEST_SKIP() << "this machine has no AMX";
  }
};
} // namespace

TEST_F(HalfMatmul, KeepsTheErrorBound) {
  for (DType out : {DType::F32, DType::F16})
    for (int flags = 0; flags < 8; ++flags)
      for (auto [m, n, k] : {std::array{16, 16, 16},
                             {33, 65, 48},
                             {100, 18, 416},
                             {32, 200, 1040}}) {
        Case c{2, m, n, k};
        c.transposeLhs = flags & 1;
        c.transposeRhs = flags & 2;
        c.bias = c.broadcastRhs = flags & 4;
        c.accumulate = m % 2 == 0;
        c.out = out;
        HalfMatmulRun run(c, Contraction::Auto);
        EXPECT_EQ(run.implementation(), "own amx");
        run.expectBound();
      }
}

TEST_F(HalfMatmul, BitsDoNotDependOnThreads) {
  Case c{1, 150, 210, 512};
  auto compute = [&](unsigned threads) {
    HalfMatmulRun run(c, Contraction::Auto, threads);
    run.run();
    Tensor result = run.get(2);
    return std::vector<std::byte>(result.bytes.begin(), result.bytes.end());
  };
  std::vector<std::byte> one = compute(1);
  EXPECT_EQ(compute(2), one);
  EXPECT_EQ(compute(5), one);
}

TEST_F(HalfMatmul, InfinitiesAndNansArePropagated) {
  for (std::uint32_t side : {0u, 1u})
    for (bool transposed : {false, true}) {
      Case c{2, 40, 48, 32};
      c.transposeLhs = c.transposeRhs = transposed;
      HalfMatmulRun run(c, Contraction::Auto);
      for (std::uint32_t t : {0u, 1u})
        for (std::uint16_t &x : run.get(t).as<std::uint16_t>())
          x = 0x3c00; // 1
      std::uint16_t &x = run.get(side).as<std::uint16_t>()[run.count(side) - 1];
      for (auto [bits, expected] :
           {std::pair<std::uint16_t, float>{0x7c00, INFINITY},
            {0xfc00, -INFINITY},
            {0x7e00, NAN},
            {0x3c00, 32}}) {
        x = bits;
        run.run();
        float got = run.get(2).as<float>()[run.count(2) - 1];
        EXPECT_TRUE(got == expected || (got != got && expected != expected))
            << got << ", expected " << expected;
        EXPECT_EQ(run.get(2).as<float>()[0], 32);
      }
    }
}

TEST_F(HalfMatmul, OtherSizesAndOwnContractionsUseTheOwnKernels) {
  EXPECT_NE(HalfMatmulRun({1, 32, 32, 24}, Contraction::Auto).implementation(),
            "own amx");
  EXPECT_NE(HalfMatmulRun({1, 8, 32, 32}, Contraction::Auto).implementation(),
            "own amx");
  EXPECT_NE(HalfMatmulRun({1, 32, 32, 32}, Contraction::Own).implementation(),
            "own amx");
}
