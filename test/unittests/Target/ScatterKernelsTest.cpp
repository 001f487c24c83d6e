//===- ScatterKernelsTest.cpp - Kernels that add rows by index ------------===//

#include "KernelTest.h"
#include <cstring>

using namespace mlir;
using namespace mlir::binade;

namespace {
/// The formats of gradient and table.
using Formats = std::pair<const char *, const char *>;

class Scatter : public KernelTest,
                public ::testing::WithParamInterface<Formats> {
protected:
  struct Case {
    std::vector<int64_t> indices; ///< Their shape.
    int64_t rows;
    std::vector<int64_t> row; ///< Their shape.
    int64_t limit = 0;        ///< Indices are below it; 0 means `rows`.
    const char *integer = "i64";
  };

  static std::string getKernel(const Case &c, const Formats &formats) {
    auto shape = [](std::vector<int64_t> sizes) {
      std::string text = "tensor<";
      for (int64_t size : sizes)
        text += std::to_string(size) + "x";
      return text;
    };
    std::vector<int64_t> dy = c.indices, dtable = {c.rows};
    dy.insert(dy.end(), c.row.begin(), c.row.end());
    dtable.insert(dtable.end(), c.row.begin(), c.row.end());
    std::string gradient = shape(dy) + formats.first + ">",
                indices = shape(c.indices) + c.integer + ">",
                table = shape(dtable) + formats.second + ">";
    return "func.func private @k(%dy: " + gradient + ", %i: " + indices +
           ") -> " + table +
           " attributes {binade.kernel = #binade.schedule<scatter>} {\n"
           "%y = binade.gather_grad %dy, %i : (" +
           gradient + ", " + indices + ") -> " + table +
           "\n return %y : " + table + " }";
  }
  int32_t check(const Case &c) {
    return KernelTest::check(getKernel(c, GetParam()), {},
                             c.limit ? c.limit : c.rows);
  }
};
} // namespace

INSTANTIATE_TEST_SUITE_P(
    Kernels, Scatter,
    ::testing::Values(Formats("f32", "f32"), Formats("bf16", "bf16"),
                      Formats("f16", "f16"), Formats("bf16", "f32"),
                      Formats("f32", "f16"), Formats("f64", "f64")));

TEST_P(Scatter, TablesThatFitOneBlock) {
  EXPECT_EQ(check({{300}, 65, {48}}), 0);
  EXPECT_EQ(check({{3, 7}, 5, {128}}), 0);              // Blocks of columns.
  EXPECT_EQ(check({{2, 3, 5}, 4, {100}, 0, "i32"}), 0); // A partial last block.
  EXPECT_EQ(check({{40}, 9, {1}}), 0);
  EXPECT_EQ(check({{40}, 9, {}}), 0);
  EXPECT_EQ(check({{}, 9, {20}}), 0);
}

TEST_P(Scatter, TablesOfSeveralBlocks) {
  EXPECT_EQ(check({{100}, 1000, {40}}), 0);
  EXPECT_EQ(check({{2, 33}, 600, {4, 130}, 0, "i32"}), 0);
  EXPECT_EQ(check({{31}, 520, {1040}}), 0); // Also blocks of columns.
  EXPECT_EQ(check({{20}, 700, {}}), 0);
}

TEST_P(Scatter, ManyUpdatesOfOneRow) {
  EXPECT_EQ(check({{500}, 1000, {40}, 3}), 0);
  EXPECT_EQ(check({{500}, 30, {40}, 1}), 0);
}

TEST_P(Scatter, EmptyTensors) {
  EXPECT_EQ(check({{0}, 7, {20}, 1}), 0);
  EXPECT_EQ(check({{0}, 0, {20}, 1}), 0);
  EXPECT_EQ(check({{5}, 7, {0}, 1}), 0);
}

namespace {
struct ScatterOfFloats : KernelTest {
  TensorRef toIndices(ArrayRef<int64_t> values) {
    auto type = RankedTensorType::get({static_cast<int64_t>(values.size())},
                                      IntegerType::get(&context, 64));
    Tensor tensor(type);
    llvm::copy(values, tensor.getIntegers().begin());
    return std::make_shared<Tensor>(std::move(tensor));
  }

  /// Runs the kernel for a table of `rows` rows of 20 values, and expects the
  /// bits of a sequential loop that skips indices out of range.
  void expectPlainSums(ArrayRef<int64_t> indices, int64_t rows) {
    int64_t width = 20, count = indices.size();
    std::string table = "tensor<" + std::to_string(rows) + "x20xf32>",
                dy = "tensor<" + std::to_string(count) + "x20xf32>",
                i = "tensor<" + std::to_string(count) + "xi64>";
    parse("func.func private @k(%dy: " + dy + ", %i: " + i + ") -> " + table +
          " attributes {binade.kernel = #binade.schedule<scatter>} {\n"
          "%y = binade.gather_grad %dy, %i : (" +
          dy + ", " + i + ") -> " + table + "\n return %y : " + table + " }");
    ASSERT_TRUE(module);
    TensorRef gradient =
        draw(RankedTensorType::get({count, width}, Float32Type::get(&context)));
    std::vector<float> expected(rows * width);
    for (auto [token, index] : llvm::enumerate(indices)) {
      int64_t row = index < 0 ? index + rows : index;
      for (int64_t column = 0; row >= 0 && row < rows && column < width;
           ++column)
        expected[row * width + column] +=
            static_cast<float>((*gradient)[token * width + column]);
    }
    FailureOr<CompiledKernels> compiled = compileKernels(*module, CpuOptions());
    ASSERT_TRUE(succeeded(compiled)) << message;
    LoadedKernels loaded(*compiled);
    std::vector<char> bytes = run(loaded, loaded.kernels.front(),
                                  module->lookupSymbol<func::FuncOp>("k"),
                                  {gradient, toIndices(indices)}, 1)
                                  .front();
    std::vector<float> actual(bytes.size() / sizeof(float));
    std::memcpy(actual.data(), bytes.data(), bytes.size());
    EXPECT_EQ(actual, expected);
  }
};
} // namespace

TEST_F(ScatterOfFloats, AddsInOrder) {
  for (int64_t rows : {3, 2000}) {
    std::vector<int64_t> indices(1000);
    for (int64_t &index : indices)
      index = generator() % 3;
    expectPlainSums(indices, rows);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(ScatterOfFloats, IndicesCountFromTheEnd) {
  expectPlainSums({-9, 8, -1, 0, 0, -1}, 9);
  EXPECT_EQ(status, 0);
  std::vector<int64_t> indices(33, -2000);
  indices[20] = 1999, indices[32] = -1;
  expectPlainSums(indices, 2000);
  EXPECT_EQ(status, 0);
}

TEST_F(ScatterOfFloats, SkipsAndReportsIndicesOutOfRange) {
  for (int64_t rows : {9, 2000})
    for (int64_t bad : {rows, -rows - 1, INT64_MAX, INT64_MIN})
      for (int64_t at : {0, 33}) {
        std::vector<int64_t> indices(34, 1);
        indices[at] = bad;
        status = 0;
        expectPlainSums(indices, rows);
        EXPECT_EQ(status, 1) << bad;
      }
}
