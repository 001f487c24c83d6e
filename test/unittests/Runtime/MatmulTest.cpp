//===- MatmulTest.cpp - Matmuls of the runtime ----------------------------===//
// Binade's implementation must equal a sequential chain of fused multiply-adds
// bit by bit. oneDNN must keep an error bound.
//===----------------------------------------------------------------------===//

#include "../../../lib/Runtime/Execution/ThreadTeam.h"
#include "OneRecord.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <thread>
#include <xmmintrin.h>

using namespace binade;
using namespace binade::plan;

namespace {
struct Case {
  std::vector<std::int64_t> batch;
  std::int64_t m, n, k;
  bool transposeLhs = false, transposeRhs = false, transposeOut = false;
  bool bias = false, accumulate = false, broadcastRhs = false;
  DType lhs = DType::F32, rhs = DType::F32, out = DType::F32;
};

/// A matrix layout: batch axes, rows, columns. Rows have padding of 3 elements.
struct Layout {
  std::vector<std::int64_t> shape, strides;

  Layout(const std::vector<std::int64_t> &batch, std::int64_t rows,
         std::int64_t columns, bool transposed, bool broadcast = false) {
    std::int64_t pitch = (transposed ? rows : columns) + 3;
    std::int64_t matrix = pitch * (transposed ? columns : rows);
    std::int64_t count = 1;
    for (std::size_t d = batch.size(); d-- > 0; count *= batch[d])
      strides.insert(strides.begin(), broadcast ? 0 : count * matrix);
    shape = {broadcast ? matrix : count * matrix};
    strides.push_back(transposed ? 1 : pitch);
    strides.push_back(transposed ? pitch : 1);
  }
};

class MatmulRun {
public:
  MatmulRun(const Case &c, Contraction contraction, unsigned threads)
      : c(c), lhsLayout(c.batch, c.m, c.k, c.transposeLhs),
        rhsLayout(c.batch, c.k, c.n, c.transposeRhs, c.broadcastRhs),
        outLayout(c.batch, c.m, c.n, c.transposeOut) {
    lhs = tensors.add(c.lhs, lhsLayout.shape);
    rhs = tensors.add(c.rhs, rhsLayout.shape);
    out = tensors.add(c.out, outLayout.shape);
    bias = tensors.add(c.out, {c.n});
    Matmul matmul;
    matmul.lhs = {lhs, 0, lhsLayout.strides, {}};
    matmul.rhs = {rhs, 0, rhsLayout.strides, {}};
    matmul.out = {out, 0, outLayout.strides, {}};
    if (c.bias)
      matmul.bias = View{bias, 0, {1}, {}};
    matmul.batch = c.batch;
    matmul.m = c.m;
    matmul.n = c.n;
    matmul.k = c.k;
    matmul.accumulate = c.accumulate;
    tensors.plan.records = {{"matmul", matmul}};
    program.emplace(tensors.load(contraction, threads));
    for (std::uint32_t t = 0; t < 4; ++t)
      fillExactly(*program, t);
    if (c.lhs == DType::F32 && c.rhs == DType::F32) {
      fillFinely(*program, lhs);
      fillFinely(*program, rhs);
    }
    Tensor result = tensorOf(*program, out);
    before.assign(result.bytes.begin(), result.bytes.end());
    EXPECT_TRUE(program->run());
  }

  std::vector<std::byte> bytes() const {
    Tensor result = tensorOf(*program, out);
    return {result.bytes.begin(), result.bytes.end()};
  }

  /// Checks every element by `check(got, old, bias, lhs terms, rhs terms)`.
  template <typename Check> void forEach(Check check) {
    Tensor lhsTensor = tensorOf(*program, lhs);
    Tensor rhsTensor = tensorOf(*program, rhs);
    Tensor outTensor = tensorOf(*program, out), old = outTensor;
    Tensor biasTensor = tensorOf(*program, bias);
    old.bytes = before;
    std::int64_t count = 1;
    for (std::int64_t size : c.batch)
      count *= size;
    for (std::int64_t b = 0; b < count; ++b) {
      std::int64_t l = 0, r = 0, o = 0, rest = b;
      for (std::size_t d = c.batch.size(); d-- > 0; rest /= c.batch[d]) {
        l += rest % c.batch[d] * lhsLayout.strides[d];
        r += rest % c.batch[d] * rhsLayout.strides[d];
        o += rest % c.batch[d] * outLayout.strides[d];
      }
      auto at = [](const Layout &layout, std::int64_t start, std::int64_t i,
                   std::int64_t j) {
        return start + i * layout.strides.end()[-2] +
               j * layout.strides.end()[-1];
      };
      for (std::int64_t i = 0; i < c.m; ++i)
        for (std::int64_t j = 0; j < c.n; ++j) {
          std::vector<double> left, right;
          for (std::int64_t k = 0; k < c.k; ++k) {
            left.push_back(readElement(lhsTensor, at(lhsLayout, l, i, k)));
            right.push_back(readElement(rhsTensor, at(rhsLayout, r, k, j)));
          }
          std::int64_t index = at(outLayout, o, i, j);
          check(readElement(outTensor, index),
                c.accumulate ? readElement(old, index) : 0,
                c.bias ? readElement(biasTensor, j) : 0, left, right);
        }
    }
  }

  void expectChains() {
    int wrong = 0;
    forEach([&](double got, double old, double bias,
                const std::vector<double> &left,
                const std::vector<double> &right) {
      float sum = 0;
      for (std::size_t k = 0; k < left.size(); ++k)
        sum = std::fma(static_cast<float>(left[k]),
                       static_cast<float>(right[k]), sum);
      if (c.bias)
        sum += static_cast<float>(bias);
      if (c.accumulate)
        sum += static_cast<float>(old);
      wrong += got != roundTo(c.out, sum);
    });
    EXPECT_EQ(wrong, 0);
  }

  void expectBound() {
    int wrong = 0;
    forEach([&](double got, double old, double bias,
                const std::vector<double> &left,
                const std::vector<double> &right) {
      double sum = bias + old, magnitude = std::abs(bias) + std::abs(old);
      for (std::size_t k = 0; k < left.size(); ++k) {
        sum += left[k] * right[k];
        magnitude += std::abs(left[k] * right[k]);
      }
      double bound = static_cast<double>(left.size() + 2) * 0x1p-24 * magnitude;
      wrong += !(std::abs(got - sum) <=
                 bound + halfUlp(c.out, std::abs(sum) + bound));
    });
    EXPECT_EQ(wrong, 0);
  }

  std::string implementation() const {
    return program->getProfile().records[0].implementation;
  }

private:
  Case c;
  Layout lhsLayout, rhsLayout, outLayout;
  Tensors tensors;
  std::uint32_t lhs, rhs, out, bias;
  std::optional<Program> program;
  std::vector<std::byte> before;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int transposes = 0; transposes < 8; ++transposes)
    for (auto [m, n, k] : {std::array{1, 1, 1},
                           {5, 7, 3},
                           {33, 65, 40},
                           {14, 32, 8},
                           {61, 18, 401}}) {
      Case c{{}, m, n, k};
      c.transposeLhs = transposes & 1;
      c.transposeRhs = transposes & 2;
      c.transposeOut = transposes & 4;
      all.push_back(c);
      c.batch = {2, 3};
      c.bias = true;
      c.accumulate = n % 2 == 0;
      all.push_back(c);
    }
  Case shared{{3}, 40, 50, 60};
  shared.broadcastRhs = true;
  all.push_back(shared);
  // A right operand too large for one work item, and more columns than an item.
  all.push_back({{}, 3, 2100, 1000});
  Case wide{{2}, 3, 700, 600};
  wide.bias = true;
  all.push_back(wide);
  return all;
}
} // namespace

TEST(Matmul, OurImplementationSumsInOneChainOfFusedMultiplyAdds) {
  for (Case c : cases())
    MatmulRun(c, Contraction::Own, 2).expectChains();
}

TEST(Matmul, OurImplementationSupportsAllCombinationsOfFloatTypes) {
  constexpr DType types[] = {DType::F32, DType::BF16, DType::F16};
  for (DType lhs : types)
    for (DType rhs : types)
      for (DType out : types)
        for (bool transposed : {false, true}) {
          Case c{{2}, 19, 35, 27};
          c.lhs = lhs;
          c.rhs = rhs;
          c.out = out;
          c.transposeLhs = c.transposeRhs = transposed;
          c.bias = c.accumulate = true;
          MatmulRun(c, Contraction::Own, 2).expectChains();
        }
}

/// Decodes an FP8 value.
static float decode(std::uint8_t code, DType dtype) {
  int bits = dtype == DType::F8_E4M3 ? 3 : 2, bias = bits == 3 ? 7 : 15;
  int fraction = code & ((1 << bits) - 1), exponent = (code & 0x7f) >> bits;
  if (dtype == DType::F8_E4M3 ? (code & 0x7f) == 0x7f
                              : exponent == 31 && fraction != 0)
    return NAN;
  float magnitude = dtype == DType::F8_E5M2 && exponent == 31
                        ? INFINITY
                        : std::ldexp(static_cast<float>(
                                         fraction | (exponent ? 1 << bits : 0)),
                                     std::max(exponent, 1) - bias - bits);
  return code & 0x80 ? -magnitude : magnitude;
}

/// Every FP8 value is multiplied by every other one.
TEST(Matmul, Fp8OperandsAreDecodedExactly) {
  constexpr std::int64_t count = 256;
  for (DType left : {DType::F8_E4M3, DType::F8_E5M2})
    for (DType right : {DType::F8_E4M3, DType::F8_E5M2})
      for (bool along : {false, true}) {
        Tensors tensors;
        Matmul matmul;
        matmul.m = matmul.n = count;
        matmul.k = 2;
        View lhs{tensors.add(left, {2 * count}), 0, {2, 1}, {}};
        View rhs{tensors.add(right, {2 * count}), 0, {count, 1}, {}};
        if (along) {
          lhs.strides = {1, count};
          rhs.strides = {1, 2};
        }
        matmul.lhs = lhs;
        matmul.rhs = rhs;
        matmul.lhsScale = View{tensors.add(DType::F32, {}), 0, {}, {}};
        matmul.rhsScale = View{tensors.add(DType::F32, {}), 0, {}, {}};
        matmul.bias = View{tensors.add(DType::F32, {count}), 0, {1}, {}};
        matmul.out = {
            tensors.add(DType::F32, {count, count}), 0, {count, 1}, {}};
        tensors.plan.records = {{"matmul", matmul}};
        Program program = tensors.load(Contraction::Auto, 2);
        auto codes = [&](const View &view) {
          return tensorOf(program, view.buffer).as<std::uint8_t>();
        };
        for (std::int64_t i = 0; i < count; ++i) {
          codes(lhs)[i * lhs.strides[0]] = static_cast<std::uint8_t>(i);
          codes(lhs)[i * lhs.strides[0] + lhs.strides[1]] = 0x38;
          codes(rhs)[i * rhs.strides[1]] = static_cast<std::uint8_t>(i);
          codes(rhs)[i * rhs.strides[1] + rhs.strides[0]] = 0x3a;
        }
        auto numbers = [&](const View &view) {
          return tensorOf(program, view.buffer).as<float>();
        };
        numbers(*matmul.lhsScale)[0] = 0.3f;
        numbers(*matmul.rhsScale)[0] = 1.7f;
        std::fill_n(numbers(*matmul.bias).begin(), count, 0.7f);
        ASSERT_TRUE(program.run());
        int wrong = 0;
        for (std::int64_t i = 0; i < count; ++i)
          for (std::int64_t j = 0; j < count; ++j) {
            auto code = [](std::int64_t x) {
              return static_cast<std::uint8_t>(x);
            };
            float sum = decode(code(i), left) * decode(code(j), right);
            sum = std::fma(decode(0x38, left), decode(0x3a, right), sum);
            float expected = sum * (0.3f * 1.7f) + 0.7f;
            float got = numbers(matmul.out)[i * count + j];
            wrong += std::isnan(expected) ? !std::isnan(got) : got != expected;
          }
        EXPECT_EQ(wrong, 0);
      }
}

/// The sum of each block is one chain of fused multiply-adds; a second chain
/// adds the sums times their scales. Both are in f32.
TEST(Matmul, BlockScalesMultiplyTheSumsOfTheirBlocks) {
  struct Case {
    std::int64_t m, n, k;
    ScaleBlock block;
  };
  for (auto [m, n, k, block] :
       {Case{37, 150, 300, {1, 128, 128}}, Case{150, 19, 256, {128, 1, 128}},
        Case{5, 3, 20, {1, 1, 128}}, Case{40, 70, 77, {1, 32, 32}}}) {
    Tensors tensors;
    Matmul matmul;
    matmul.m = m;
    matmul.n = n;
    matmul.k = k;
    matmul.block = block;
    std::int64_t terms = (k - 1) / block.k + 1;
    auto getScales = [&](std::int64_t entries, std::int64_t own) {
      std::vector<std::int64_t> strides = {1, entries};
      if (own > 1)
        strides = {terms + 2, 1};
      return View{
          tensors.add(DType::F32, {entries * (terms + 2)}), 0, strides, {}};
    };
    matmul.lhs = {tensors.add(DType::F8_E4M3, {m, k}), 0, {k, 1}, {}};
    matmul.rhs = {tensors.add(DType::F8_E4M3, {n, k}), 0, {1, k}, {}};
    matmul.lhsScale = getScales(m, block.m);
    matmul.rhsScale = getScales(n, block.n);
    matmul.bias = View{tensors.add(DType::F32, {n}), 0, {1}, {}};
    matmul.out = {tensors.add(DType::F32, {m, n}), 0, {n, 1}, {}};
    tensors.plan.records = {{"matmul", matmul}};
    Program program = tensors.load(Contraction::Auto, 2);
    std::mt19937 generator(5);
    for (const View &side : {matmul.lhs, matmul.rhs})
      for (std::uint8_t &code :
           tensorOf(program, side.buffer).as<std::uint8_t>())
        code = static_cast<std::uint8_t>(generator() % 127 | generator() << 7);
    for (const View &side : {*matmul.lhsScale, *matmul.rhsScale, *matmul.bias})
      for (float &value : tensorOf(program, side.buffer).as<float>())
        value = std::ldexp(1.0f + static_cast<float>(generator() % 8) / 8,
                           static_cast<int>(generator() % 20) - 10);
    ASSERT_TRUE(program.run());
    auto codeOf = [&](const View &view, std::int64_t i, std::int64_t j) {
      auto codes = tensorOf(program, view.buffer).as<std::uint8_t>();
      return decode(codes[i * view.strides[0] + j * view.strides[1]],
                    DType::F8_E4M3);
    };
    auto scaleOf = [&](const View &view, std::int64_t i, std::int64_t j) {
      return tensorOf(program, view.buffer)
          .as<float>()[i * view.strides[0] + j * view.strides[1]];
    };
    int wrong = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float total = 0;
        for (std::int64_t begin = 0; begin < k; begin += block.k) {
          float sum = 0;
          for (std::int64_t l = begin; l < std::min(k, begin + block.k); ++l)
            sum = std::fma(codeOf(matmul.lhs, i, l), codeOf(matmul.rhs, l, j),
                           sum);
          sum *= scaleOf(*matmul.lhsScale, i / block.m, begin / block.k);
          total = std::fma(
              sum, scaleOf(*matmul.rhsScale, j / block.n, begin / block.k),
              total);
        }
        float bias = tensorOf(program, matmul.bias->buffer).as<float>()[j];
        wrong += tensorOf(program, matmul.out.buffer).as<float>()[i * n + j] !=
                 total + bias;
      }
    EXPECT_EQ(wrong, 0) << m << " " << n << " " << k;
  }
}

TEST(Matmul, OneDnnThreadsKeepSubnormals) {
  Tensors tensors;
  Matmul matmul;
  matmul.m = matmul.n = 256;
  matmul.k = 4;
  matmul.lhs = {tensors.add(DType::F32, {256, 4}), 0, {4, 1}, {}};
  matmul.rhs = {tensors.add(DType::F32, {4, 256}), 0, {256, 1}, {}};
  matmul.out = {tensors.add(DType::F32, {256, 256}), 0, {256, 1}, {}};
  tensors.plan.records = {{"matmul", matmul}};
  Program program = tensors.load(Contraction::Auto, 4);
  for (float &value : tensorOf(program, 0).as<float>())
    value = 0x1p-100f;
  for (float &value : tensorOf(program, 1).as<float>())
    value = 0x1p-40f;
  // The host thread flushes subnormals to zero before it creates its team.
  std::thread host([&] {
    _mm_setcsr(0x1f80 | 0x8040);
    ThreadTeam::get().parallelFor(4, 64, [](std::int64_t, unsigned) {});
    ASSERT_TRUE(program.run());
  });
  host.join();
  std::span<float> got = tensorOf(program, 2).as<float>();
  EXPECT_EQ(std::count(got.begin(), got.end(), 0x1p-138f), 65536);
}

TEST(Matmul, ANoteAboutF16IsPrintedOnce) {
  Tensors tensors;
  std::uint32_t a = tensors.add(DType::F16, {2, 2});
  Matmul matmul;
  matmul.lhs = matmul.rhs = matmul.out = {a, 0, {2, 1}, {}};
  matmul.m = matmul.n = matmul.k = 2;
  tensors.plan.records = {{"first", matmul}, {"second", matmul}};
  tensors.plan.ledger = {{Category::Workspace, tensors.plan.arenaBytes}};
  std::vector<std::string> lines;
  LoadOptions options;
  options.notify = [&](std::string_view line) { lines.emplace_back(line); };
  Bundle bundle;
  bundle.plan = tensors.plan;
  ASSERT_TRUE(Program::load(std::move(bundle), "test", "", options));
  EXPECT_EQ(lines,
            std::vector<std::string>{
                "remark: some f16 matmuls or convolutions are computed in f32 "
                "and rounded once; only matmuls on processors with AMX have "
                "kernels for f16"});
}

TEST(Matmul, ScratchMemoryIsReservedByThePlanOrAllocated) {
  // A plan normally reserves the queried size. With less, or nothing, the
  // runtime allocates.
  for (std::uint64_t percent : {0, 50, 100}) {
    Tensors tensors;
    Matmul matmul;
    matmul.m = matmul.n = matmul.k = 40;
    for (View *view : {&matmul.lhs, &matmul.rhs, &matmul.out})
      *view = {tensors.add(DType::F32, {40, 40}), 0, {40, 1}, {}};
    LibraryUse use =
        queryLibrary(tensors.plan.buffers, {"", matmul}, 2, Contraction::Own);
    EXPECT_TRUE(use.implementation.starts_with("own ")) << use.implementation;
    ASSERT_GT(use.scratchBytes, 0u);
    std::uint64_t reserved = use.scratchBytes * percent / 100;
    if (percent > 0)
      matmul.scratch =
          View{tensors.add(DType::U8, {static_cast<std::int64_t>(reserved)}),
               0,
               {},
               {}};
    tensors.plan.records = {{"matmul", matmul}};
    Program program = tensors.load(Contraction::Own, 2);
    EXPECT_EQ(program.getExtraBytes(), percent == 100 ? 0u : use.scratchBytes);
    tensorOf(program, 0).as<float>()[0] = 3;
    tensorOf(program, 1).as<float>()[7] = 5;
    ASSERT_TRUE(program.run());
    EXPECT_EQ(tensorOf(program, 2).as<float>()[7], 15);
  }
}

TEST(Matmul, OurImplementationHasTheSameBitsForAnyThreads) {
  Case c{{}, 150, 210, 500};
  std::vector<std::byte> one = MatmulRun(c, Contraction::Own, 1).bytes();
  EXPECT_EQ(MatmulRun(c, Contraction::Own, 2).bytes(), one);
  EXPECT_EQ(MatmulRun(c, Contraction::Own, 5).bytes(), one);
}

TEST(Matmul, OneDnnKeepsTheErrorBound) {
  if (oneDnnVersion().empty())
    GTEST_SKIP() << "libdnnl.so.2 was not found";
  for (Case c : cases())
    MatmulRun(c, Contraction::Library, 2).expectBound();
  for (DType out : {DType::F32, DType::BF16})
    for (bool transposed : {false, true}) {
      Case c{{2, 2}, 48, 64, 96};
      c.lhs = c.rhs = DType::BF16;
      c.out = out;
      c.transposeRhs = transposed;
      c.bias = c.accumulate = true;
      MatmulRun(c, Contraction::Library, 2).expectBound();
    }
}

TEST(Matmul, OneDnnHasOptimizedKernelsForTraining) {
  if (oneDnnVersion().empty())
    GTEST_SKIP() << "libdnnl.so.2 was not found";
  if (std::getenv("BINADE_CONTRACTION"))
    GTEST_SKIP() << "BINADE_CONTRACTION selects the implementation";
  // Linear layers (forward, both gradients) and attention.
  for (DType type : fastTypes())
    for (int transposes = 0; transposes < 3; ++transposes)
      for (bool batched : {false, true}) {
        Case c{{}, 256, 384, 128};
        if (batched)
          c.batch = {2, 3};
        c.lhs = c.rhs = c.out = type;
        c.transposeLhs = transposes == 1;
        c.transposeRhs = transposes == 2;
        std::string name =
            MatmulRun(c, Contraction::Library, 2).implementation();
        EXPECT_TRUE(name.find("jit") != name.npos ||
                    name.find("brg") != name.npos)
            << name;
      }
}
