//===- FindOverflowTest.cpp - Search for the first overflow ---------------===//

#include "OneRecord.h"

using namespace binade;
using namespace binade::plan;

namespace {
/// A chain of matmuls; each multiplies a 1 x 2 tensor by a constant 2 x 2 one.
class FindOverflowTest : public testing::Test {
protected:
  std::uint32_t add(DType dtype, std::vector<std::int64_t> shape,
                    std::vector<float> values) {
    std::uint32_t index = tensors.add(dtype, std::move(shape));
    contents.emplace_back(index, std::move(values));
    return index;
  }

  /// Appends a matmul record named `label`; returns its result.
  std::uint32_t multiply(std::string label, std::uint32_t lhs,
                         std::vector<float> matrix, DType dtype) {
    std::uint32_t rhs = add(DType::F32, {2, 2}, std::move(matrix));
    std::uint32_t out = tensors.add(dtype, {1, 2});
    Matmul matmul;
    matmul.lhs = {lhs, 0, {2, 1}, {}};
    matmul.rhs = {rhs, 0, {2, 1}, {}};
    matmul.out = {out, 0, {2, 1}, {}};
    matmul.m = 1;
    matmul.n = matmul.k = 2;
    tensors.plan.records.push_back({std::move(label), matmul});
    return out;
  }

  std::optional<Overflow> find() {
    Program program = tensors.load(Contraction::Own, 1);
    for (auto &[index, values] : contents)
      std::copy(values.begin(), values.end(),
                tensorOf(program, index).as<float>().begin());
    return program.findOverflow();
  }

  Tensors tensors;
  std::vector<std::pair<std::uint32_t, std::vector<float>>> contents;
};
} // namespace

TEST_F(FindOverflowTest, FindsTheFirstRecordWithAnInfiniteResult) {
  std::uint32_t x = add(DType::F32, {1, 2}, {3, 60000});
  std::uint32_t y = multiply("keeps", x, {1, 0, 0, 1}, DType::F16);
  std::uint32_t z = multiply("doubles it", y, {0.5f, 0, 0, 2}, DType::F16);
  multiply("reads", z, {1, 1, 1, 1}, DType::F32);
  std::optional<Overflow> found = find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->label, "doubles it");
  EXPECT_EQ(found->dtype, DType::F16);
  EXPECT_EQ(found->elements, 2u);
  EXPECT_EQ(found->notFinite, 1u);
  EXPECT_EQ(found->largest, 1.5);
  EXPECT_EQ(found->operands, 60000);
}

TEST_F(FindOverflowTest, FindsNothingIfAllValuesAreFinite) {
  std::uint32_t x = add(DType::F32, {1, 2}, {3, 30000});
  multiply("doubles", x, {2, 0, 0, 2}, DType::F16);
  EXPECT_FALSE(find());
}

TEST_F(FindOverflowTest, IgnoresInfinitiesOfTheInputs) {
  std::uint32_t x = add(DType::F32, {1, 2}, {1, INFINITY});
  multiply("reads", x, {1, 1, 1, 1}, DType::F32);
  std::optional<Overflow> found = find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->label, "reads");
  EXPECT_EQ(found->notFinite, 2u); // The results, not the operand.
}

// Negative infinities are usually attention masks, not overflows.
TEST_F(FindOverflowTest, PrefersPositiveInfinities) {
  std::uint32_t x = add(DType::F32, {1, 2}, {1, 1});
  multiply("masks", x, {-1e5f, 0, 0, 1}, DType::F16);
  EXPECT_EQ(find()->label, "masks");
  multiply("overflows", x, {0, 0, 0, 1e5f}, DType::F16);
  EXPECT_EQ(find()->label, "overflows");
}
