//===- ProductKernelsTest.cpp - Generated kernels of matmuls --------------===//
//
// Compares with sums in f64, within the error of an f32 sum and of rounding.
//
//===----------------------------------------------------------------------===//

#include "RecordKernelsTest.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

namespace {
struct Product {
  GpuMatmul product;
  std::string why;
};

std::ostream &operator<<(std::ostream &stream, const Product &p) {
  return stream << p.why;
}

class Products : public RecordKernelsTest,
                 public ::testing::WithParamInterface<Product> {};
} // namespace

static GpuMatrix rowMajor(int64_t columns, DType dtype = DType::F32,
                          std::vector<int64_t> batch = {}) {
  return {dtype, std::move(batch), columns, 1, 16};
}
static GpuMatrix columnMajor(int64_t rows, DType dtype = DType::F32,
                             std::vector<int64_t> batch = {}) {
  return {dtype, std::move(batch), 1, rows, 16};
}

static Product fma(GpuMatmul product, std::string why) {
  return {std::move(product), std::move(why)};
}

/// A matmul of two matrices, each of which may be transposed.
static Product plain(int64_t m, int64_t n, int64_t k, DType lhs, DType rhs,
                     DType out, bool isLhsTransposed = false,
                     bool isRhsTransposed = false) {
  GpuMatmul p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.lhs = isLhsTransposed ? columnMajor(m, lhs) : rowMajor(k, lhs);
  p.rhs = isRhsTransposed ? columnMajor(k, rhs) : rowMajor(n, rhs);
  p.out = rowMajor(n, out);
  auto text = [](DType dtype) { return std::string(name(dtype)); };
  return {p, text(lhs) + (isLhsTransposed ? "T " : " ") + text(rhs) +
                 (isRhsTransposed ? "T " : " ") + std::to_string(m) + "x" +
                 std::to_string(n) + "x" + std::to_string(k)};
}

static std::vector<Product> getProducts() {
  std::vector<Product> all = {
      fma({{}, 5, 3, 7, rowMajor(7), rowMajor(3), rowMajor(3), {}}, "small"),
      fma({{},
           16,
           16,
           32,
           rowMajor(32),
           rowMajor(16),
           rowMajor(16),
           GpuMatrix{DType::F32, {}, 0, 1}},
          "whole tiles and a bias"),
      fma({{},
           70,
           130,
           33,
           columnMajor(70),
           columnMajor(33),
           rowMajor(130),
           {}},
          "both transposed, several tiles with rests"),
      fma({{2, 3},
           20,
           18,
           16,
           rowMajor(16, DType::F32, {960, 320}),
           rowMajor(18, DType::F32, {0, 288}),
           rowMajor(18, DType::F32, {1080, 360}),
           {},
           true},
          "batches, one broadcast, added to what is there")};
  constexpr DType bf16 = DType::BF16, f16 = DType::F16, e4m3 = DType::F8_E4M3,
                  e5m2 = DType::F8_E5M2;
  for (bool isLhs : {false, true})
    for (bool isRhs : {false, true}) {
      // Sizes with aligned 16-byte accesses, then sizes without.
      all.push_back(plain(64, 64, 64, bf16, bf16, bf16, isLhs, isRhs));
      all.push_back(plain(72, 40, 48, f16, f16, DType::F32, isLhs, isRhs));
      all.push_back(plain(67, 21, 45, bf16, bf16, DType::F32, isLhs, isRhs));
    }
  all.push_back(plain(130, 20, 34, f16, f16, f16));
  all.push_back(plain(32, 32, 32, e4m3, e4m3, bf16));
  all.push_back(plain(24, 40, 33, e4m3, e5m2, DType::F32, true));
  all.push_back(plain(24, 40, 48, e5m2, bf16, bf16, false, true));
  all.push_back(plain(20, 24, 40, bf16, f16, DType::F32));
  all.push_back(plain(20, 24, 40, DType::F32, bf16, bf16));
  // With enough tiles to fill a device, large tiles are chosen.
  Product many = plain(40, 36, 40, bf16, bf16, bf16, false, true);
  many.product.batch = {132};
  many.product.lhs.batch = {0};
  many.product.rhs.batch = {40 * 36};
  many.product.out.batch = {40 * 36};
  many.why = "large tiles";
  all.push_back(many);

  Product rich = plain(40, 24, 48, bf16, bf16, bf16);
  rich.product.bias = GpuMatrix{DType::F32, {}, 0, 2};
  rich.product.accumulate = true;
  rich.product.lhsScale = rich.product.rhsScale = GpuScale();
  rich.why = "a bias of every second number, scales, added to what is there";
  all.push_back(rich);

  Product batches = plain(20, 24, 40, bf16, bf16, bf16);
  batches.product.batch = {2, 2};
  batches.product.lhs.batch = {0, 800};
  batches.product.rhs.batch = {1920, 960};
  batches.product.out.batch = {960, 480};
  batches.why = "batches of bf16";
  all.push_back(batches);

  Product strided = plain(20, 24, 40, bf16, bf16, bf16);
  strided.product.lhs = {bf16, {}, 120, 3, 2};
  strided.product.rhs = {bf16, {}, 24, 1, 2};
  strided.why = "neighbours apart, and nothing aligned";
  all.push_back(strided);

  for (DType dtype : {bf16, DType::F32})
    for (int64_t k : {1024, 1001}) {
      Product parts = plain(33, 30, k, dtype, dtype, dtype, true);
      parts.product.batch = {2};
      parts.product.lhs.batch = {33 * k};
      parts.product.rhs.batch = {30 * k};
      parts.product.out.batch = {33 * 30};
      parts.product.workspace = true;
      parts.product.bias = GpuMatrix{dtype, {}, 0, 1};
      parts.why += ", sums in parts";
      all.push_back(parts);
    }
  return all;
}

/// Returns random cases of any shape, with padded rows.
static std::vector<Product> drawProducts(int count) {
  std::mt19937 generator(29);
  auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
  };
  constexpr DType kTypes[] = {DType::F32, DType::BF16, DType::F16,
                              DType::F8_E4M3, DType::F8_E5M2};
  std::vector<Product> all;
  for (int number = 0; number < count; ++number) {
    GpuMatmul p;
    p.m = draw(1, 90);
    p.n = draw(1, 90);
    p.k = draw(0, 3) == 0 ? draw(256, 700) : draw(1, 90);
    if (draw(0, 2) == 0)
      p.batch = {draw(1, 3)};
    auto drawMatrix = [&](int64_t rows, int64_t columns, DType dtype) {
      bool isTransposed = draw(0, 1) != 0;
      int64_t length = isTransposed ? rows : columns,
              pitch = length + 4 * draw(0, 2);
      GpuMatrix matrix{dtype, {}, pitch, 1, 16 >> draw(0, 4)};
      if (isTransposed)
        std::swap(matrix.rows, matrix.columns);
      if (!p.batch.empty())
        matrix.batch = {pitch * (isTransposed ? columns : rows)};
      return matrix;
    };
    DType lhs = kTypes[draw(0, 4)];
    p.lhs = drawMatrix(p.m, p.k, lhs);
    p.rhs = drawMatrix(p.k, p.n, draw(0, 3) != 0 ? lhs : kTypes[draw(0, 4)]);
    p.out = drawMatrix(p.m, p.n, kTypes[draw(0, 2)]);
    if (draw(0, 1) != 0)
      p.bias = GpuMatrix{kTypes[draw(0, 2)], {}, 0, draw(1, 2)};
    p.accumulate = draw(0, 2) == 0;
    if (draw(0, 2) == 0)
      p.lhsScale = GpuScale();
    if (draw(0, 2) == 0)
      p.rhsScale = GpuScale();
    p.workspace = draw(0, 1) != 0;
    all.push_back({p, "drawn " + std::to_string(number)});
  }
  return all;
}

/// E4M3 operands in the layout of cuBLASLt. Scales of rows are contiguous along
/// rows, scales of blocks along the contracted axis, with padding.
static Product blocks(int64_t m, int64_t n, int64_t k, GpuScaleBlock block,
                      bool isInParts = false) {
  Product of =
      plain(m, n, k, DType::F8_E4M3, DType::F8_E4M3, DType::F32, false, true);
  auto getScale = [&](int64_t entries, int64_t own) {
    return own == 1 ? GpuScale{1, entries} : GpuScale{(k - 1) / block.k + 3, 1};
  };
  of.product.block = block;
  of.product.lhsScale = getScale(m, block.m);
  of.product.rhsScale = getScale(n, block.n);
  of.product.workspace = isInParts;
  of.why += ", scales of " + std::to_string(block.m) + "x" +
            std::to_string(block.n) + "x" + std::to_string(block.k) +
            (isInParts ? ", sums in parts" : "");
  return of;
}

static std::vector<Product> getProductsOfBlocks() {
  constexpr GpuScaleBlock rows = {1, 1, 128}, columns = {1, 128, 128},
                          turned = {128, 1, 128};
  std::vector<Product> all = {
      // Partial steps; partial blocks of terms, rows and columns.
      blocks(40, 24, 300, rows), blocks(36, 144, 272, columns),
      blocks(132, 32, 272, turned), blocks(20, 24, 100, columns),
      blocks(24, 40, 512, {32, 1, 32}),
      // Few rows or columns.
      blocks(5, 144, 300, columns), blocks(132, 8, 272, turned),
      blocks(4, 4, 16, rows),
      // Each part of split-K has whole blocks of terms.
      blocks(33, 48, 2050, columns, true), blocks(4, 144, 1500, columns, true)};
  // With enough tiles to fill a device, large tiles are chosen.
  all.push_back(blocks(20, 132 * 128 - 16, 40, {1, 128, 32}));
  Product rich = blocks(24, 40, 272, rows);
  rich.product.bias = GpuMatrix{DType::BF16, {}, 0, 1};
  rich.product.accumulate = true;
  rich.why += ", a bias, added to what is there";
  all.push_back(rich);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Blocks, Products,
                         ::testing::ValuesIn(getProductsOfBlocks()));
INSTANTIATE_TEST_SUITE_P(Drawn, Products,
                         ::testing::ValuesIn(drawProducts(60)));
INSTANTIATE_TEST_SUITE_P(Kernels, Products, ::testing::ValuesIn(getProducts()));

TEST_P(Products, AreWithinTheErrorOfSums) {
  const GpuMatmul &p = GetParam().product;
  auto countOf = [&](const GpuMatrix &matrix, int64_t rows, int64_t columns) {
    int64_t last = (rows - 1) * matrix.rows + (columns - 1) * matrix.columns;
    for (size_t axis = 0; axis < p.batch.size(); ++axis)
      last += (p.batch[axis] - 1) * matrix.batch[axis];
    return last + 1;
  };
  std::vector<std::vector<char>> memories;
  std::vector<std::vector<double>> numbers;
  auto add = [&](int64_t count, DType dtype) {
    memories.push_back(draw(count, dtype));
    numbers.push_back(read(memories.back(), dtype));
  };
  add(countOf(p.lhs, p.m, p.k), p.lhs.dtype);
  add(countOf(p.rhs, p.k, p.n), p.rhs.dtype);
  add(countOf(p.out, p.m, p.n), p.out.dtype);
  std::vector<double> bias(p.n);
  if (p.bias) {
    add((p.n - 1) * p.bias->columns + 1, p.bias->dtype);
    for (int64_t j = 0; j < p.n; ++j)
      bias[j] = numbers.back()[j * p.bias->columns];
  }
  GpuScaleBlock block = p.block.value_or(GpuScaleBlock{p.m, p.n, p.k});
  auto addScales = [&](const std::optional<GpuScale> &scale, int64_t entries,
                       int64_t ownBlock) -> std::vector<double> {
    if (!scale)
      return {};
    add((entries - 1) / ownBlock * scale->entryStride +
            (p.k - 1) / block.k * scale->termStride + 1,
        DType::F32);
    return numbers.back();
  };
  std::vector<double> lhsScales = addScales(p.lhsScale, p.m, block.m),
                      rhsScales = addScales(p.rhsScale, p.n, block.n);
  auto scaleOf = [&](const std::optional<GpuScale> &scale,
                     const std::vector<double> &scales, int64_t entry,
                     int64_t term) {
    return scale ? scales[entry * scale->entryStride +
                          term / block.k * scale->termStride]
                 : 1.0;
  };
  int64_t workspace = getWorkspaceBytes(p);
  if (p.workspace && workspace > 0)
    memories.emplace_back(workspace);
  run(compileGpuMatmuls(UnknownLoc::get(&context), p, CudaOptions()), memories);
  if (HasFatalFailure())
    return;
  std::vector<double> out = read(memories[2], p.out.dtype);

  int64_t batches = 1;
  for (int64_t size : p.batch)
    batches *= size;
  double unit = getUnit(DType::F32);
  for (int64_t number = 0; number < batches; ++number) {
    auto startOf = [&](const GpuMatrix &matrix) {
      int64_t start = 0, rest = number;
      for (size_t axis = p.batch.size(); axis-- > 0;) {
        start += rest % p.batch[axis] * matrix.batch[axis];
        rest /= p.batch[axis];
      }
      return start;
    };
    const double *lhs = numbers[0].data() + startOf(p.lhs),
                 *rhs = numbers[1].data() + startOf(p.rhs);
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          double term = lhs[i * p.lhs.rows + l * p.lhs.columns] *
                        rhs[l * p.rhs.rows + j * p.rhs.columns] *
                        scaleOf(p.lhsScale, lhsScales, i / block.m, l) *
                        scaleOf(p.rhsScale, rhsScales, j / block.n, l);
          sum += term;
          magnitude += std::abs(term);
        }
        int64_t at = startOf(p.out) + i * p.out.rows + j * p.out.columns;
        for (double more : {bias[j], p.accumulate ? numbers[2][at] : 0.0}) {
          sum += more;
          magnitude += std::abs(more);
        }
        double bound =
            (p.k + 4) * unit * magnitude + getUnit(p.out.dtype) * std::abs(sum);
        ASSERT_NEAR(out[at], sum, bound) << number << ", " << i << ", " << j;
      }
  }
}

/// FP8 is converted directly to f16: by an instruction if the chip has one,
/// otherwise by integer arithmetic.
TEST_F(RecordKernelsTest, OperandsOfEightBitsAreConvertedToF16) {
  GpuMatmul product = plain(256, 256, 256, DType::F8_E4M3, DType::F8_E5M2,
                            DType::F32, false, true)
                          .product;
  for (const char *chip : {"sm_80", "sm_90"}) {
    CudaOptions options;
    options.chip = findCudaChip(chip);
    FailureOr<CompiledGpuKernels> compiled =
        compileGpuMatmuls(UnknownLoc::get(&context), product, options);
    ASSERT_TRUE(succeeded(compiled));
    StringRef ptx = compiled->codes.front().ptx;
    EXPECT_TRUE(ptx.contains("ld.global.nc.v4.b32"));
    EXPECT_TRUE(ptx.contains("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16"));
    EXPECT_FALSE(ptx.contains(".local"));
    EXPECT_EQ(ptx.contains("cvt.rn.f16x2.e4m3x2"), options.chip->hasFloat8);
    EXPECT_EQ(ptx.contains("cvt.rn.f16x2.e5m2x2"), options.chip->hasFloat8);
    // No value is converted through f32.
    EXPECT_FALSE(ptx.contains("f16.f32\t") || ptx.contains("f16x2.f32\t"));
  }
}

TEST_F(RecordKernelsTest, LongSumsOfFewTilesUseSplitK) {
  auto query = [](int64_t m, int64_t n, int64_t k, DType dtype) {
    return getWorkspaceBytes(plain(m, n, k, dtype, dtype, dtype).product);
  };
  for (DType dtype : {DType::F32, DType::BF16}) {
    EXPECT_GT(query(33, 30, 1001, dtype), 0);
    EXPECT_EQ(query(33, 30, 200, dtype), 0);
    EXPECT_EQ(query(2048, 2048, 4096, dtype), 0);
    // At most 132 partial tiles of 128 x 128 f32.
    for (int64_t side : {64, 500, 768, 1024})
      EXPECT_LE(query(side, side, 100000, dtype), 132 * 128 * 128 * 4);
  }
}
