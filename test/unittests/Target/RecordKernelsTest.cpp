//===- RecordKernelsTest.cpp - products and copies as kernels -------------===//

#include "binade/Simulator/Simulator.h"
#include "binade/Target/CUDA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

namespace {
class RecordKernelsTest : public ::testing::Test {
protected:
  RecordKernelsTest() {
    context.loadDialect<arith::ArithDialect, gpu::GPUDialect, math::MathDialect,
                        memref::MemRefDialect, scf::SCFDialect,
                        vector::VectorDialect>();
  }

  /// Runs the only kernel of `compiled`.
  void run(FailureOr<CompiledGpuKernels> compiled,
           std::vector<std::vector<char>> &memories) {
    ASSERT_TRUE(succeeded(compiled));
    ASSERT_EQ(compiled->kernels.size(), 1u);
    const CompiledGpuKernel &kernel = compiled->kernels.front();
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(compiled->codes[kernel.code].ir, &context);
    ASSERT_TRUE(module);
    gpu::GPUFuncOp function;
    module->walk([&](gpu::GPUFuncOp found) { function = found; });
    EXPECT_EQ(function.getName(), kernel.entries.front().symbol);
    SimulatedLaunch launch;
    launch.grid = kernel.entries.front().grid;
    launch.block = kernel.entries.front().block;
    for (std::vector<char> &memory : memories)
      launch.arguments.emplace_back(MutableArrayRef<char>(memory));
    EXPECT_TRUE(succeeded(simulate(function, launch)));
  }

  std::vector<float> draw(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float &x : values)
      x = normal(generator);
    return values;
  }

  MLIRContext context;
  std::mt19937 generator{11};
};

struct Product {
  GpuProduct product;
  const char *why;
};

std::ostream &operator<<(std::ostream &stream, const Product &p) {
  return stream << p.why;
}

class Products : public RecordKernelsTest,
                 public ::testing::WithParamInterface<Product> {
protected:
  /// bf16 values are chosen so that they are exact.
  static std::vector<char> toBytes(const std::vector<float> &x, DType dtype) {
    std::vector<char> bytes;
    for (float value : x) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      const char *start = reinterpret_cast<const char *>(&bits);
      bool isNarrow = dtype == DType::BF16;
      bytes.insert(bytes.end(), start + (isNarrow ? 2 : 0), start + 4);
    }
    return bytes;
  }
  static std::vector<float> fromBytes(const std::vector<char> &bytes,
                                      DType dtype) {
    size_t size = dtype == DType::BF16 ? 2 : 4;
    std::vector<float> values(bytes.size() / size);
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(reinterpret_cast<char *>(&bits) + 4 - size,
                  bytes.data() + i * size, size);
      std::memcpy(&values[i], &bits, sizeof bits);
    }
    return values;
  }
};
} // namespace

static GpuMatrix rowMajor(int64_t columns, std::vector<int64_t> batch = {},
                          DType dtype = DType::F32) {
  return {dtype, std::move(batch), columns, 1};
}
static GpuMatrix columnMajor(int64_t rows, std::vector<int64_t> batch = {}) {
  return {DType::F32, std::move(batch), 1, rows};
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Products,
    ::testing::Values(
        Product{{{}, 5, 3, 7, rowMajor(7), rowMajor(3), rowMajor(3), {}, false},
                "small"},
        Product{{{},
                 16,
                 16,
                 32,
                 rowMajor(32),
                 rowMajor(16),
                 rowMajor(16),
                 GpuMatrix{DType::F32, {}, 0, 1},
                 false},
                "whole tiles and a bias"},
        Product{{{},
                 70,
                 130,
                 33,
                 columnMajor(70),
                 columnMajor(33),
                 rowMajor(130),
                 {},
                 false},
                "both transposed, several tiles with rests"},
        Product{{{2, 3},
                 20,
                 18,
                 16,
                 rowMajor(16, {960, 320}),
                 rowMajor(18, {0, 288}),
                 rowMajor(18, {1080, 360}),
                 {},
                 true},
                "batches, one broadcast, added to what is there"},
        Product{{{},
                 40,
                 24,
                 48,
                 rowMajor(48, {}, DType::BF16),
                 rowMajor(24, {}, DType::BF16),
                 rowMajor(24, {}, DType::BF16),
                 GpuMatrix{DType::F32, {}, 0, 2},
                 false},
                "bf16 with a bias of f32, not all of it"}));

/// Against sums in f64: the error of a sum in f32 and, for bf16, of rounding.
TEST_P(Products, AreWithinTheErrorOfSums) {
  const GpuProduct &p = GetParam().product;
  auto countOf = [&](const GpuMatrix &matrix, int64_t rows, int64_t columns) {
    int64_t last = (rows - 1) * matrix.rows + (columns - 1) * matrix.columns;
    for (size_t axis = 0; axis < p.batch.size(); ++axis)
      last += (p.batch[axis] - 1) * matrix.batch[axis];
    return last + 1;
  };
  std::vector<std::vector<char>> memories;
  for (auto [matrix, rows, columns] :
       {std::tuple(&p.lhs, p.m, p.k), std::tuple(&p.rhs, p.k, p.n),
        std::tuple(&p.out, p.m, p.n)})
    memories.push_back(
        toBytes(draw(countOf(*matrix, rows, columns)), matrix->dtype));
  if (p.bias)
    memories.push_back(
        toBytes(draw((p.n - 1) * p.bias->columns + 1), p.bias->dtype));
  std::vector<float> lhs = fromBytes(memories[0], p.lhs.dtype),
                     rhs = fromBytes(memories[1], p.rhs.dtype),
                     before = fromBytes(memories[2], p.out.dtype), bias;
  if (p.bias)
    bias = fromBytes(memories[3], p.bias->dtype);
  run(compileGpuProducts(UnknownLoc::get(&context), p, CudaOptions()),
      memories);
  std::vector<float> out = fromBytes(memories[2], p.out.dtype);

  int64_t batches = std::accumulate(p.batch.begin(), p.batch.end(), int64_t(1),
                                    std::multiplies<>());
  double unit = std::ldexp(1.0, -24);
  double rounding = p.out.dtype == DType::BF16 ? std::ldexp(1.0, -8) : unit;
  for (int64_t number = 0; number < batches; ++number) {
    auto startOf = [&](const GpuMatrix &matrix) {
      int64_t start = 0, rest = number;
      for (size_t axis = p.batch.size(); axis-- > 0;) {
        start += rest % p.batch[axis] * matrix.batch[axis];
        rest /= p.batch[axis];
      }
      return start;
    };
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          double x = lhs[startOf(p.lhs) + i * p.lhs.rows + l * p.lhs.columns];
          double y = rhs[startOf(p.rhs) + l * p.rhs.rows + j * p.rhs.columns];
          sum += x * y;
          magnitude += std::abs(x * y);
        }
        int64_t at = startOf(p.out) + i * p.out.rows + j * p.out.columns;
        for (double more : {p.bias ? bias[j * p.bias->columns] : 0.0f,
                            p.accumulate ? before[at] : 0.0f}) {
          sum += more;
          magnitude += std::abs(more);
        }
        double bound = (p.k + 2) * unit * magnitude + rounding * std::abs(sum);
        ASSERT_NEAR(out[at], sum, bound) << number << ", " << i << ", " << j;
      }
  }
}

TEST_F(RecordKernelsTest, CopiesWithStrides) {
  // [2, 5, 300] to [300, 2, 5], two bytes each, from every second element.
  GpuCopy copy{2, {2, 5, 300}, {3000, 600, 2}, {5, 1, 10}};
  std::vector<int16_t> from(6000), to(3000, -1);
  std::iota(from.begin(), from.end(), 0);
  auto bytesOf = [](const std::vector<int16_t> &x) {
    const char *start = reinterpret_cast<const char *>(x.data());
    return std::vector<char>(start, start + x.size() * sizeof(int16_t));
  };
  std::vector<std::vector<char>> memories = {bytesOf(from), bytesOf(to)};
  memories[0].resize(2 * 5999); // Behind the last one nothing is read.
  run(compileGpuCopies(UnknownLoc::get(&context), copy, CudaOptions()),
      memories);
  std::memcpy(to.data(), memories[1].data(), memories[1].size());
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 5; ++b)
      for (int64_t c = 0; c < 300; ++c)
        ASSERT_EQ(to[c * 10 + a * 5 + b], a * 3000 + b * 600 + c * 2);
}
