//===- AttentionTest.cpp - Attention of the runtime -----------------------===//
// Compares results with the definition of softmax in f64, and gradients with
// finite differences of a weighted sum of the results.
//===----------------------------------------------------------------------===//

#include "OneRecord.h"

using namespace binade;
using namespace binade::plan;

namespace {
struct Case {
  DType dtype;
  bool causal;
  std::int64_t queries, keys;
};

/// Attention with three heads whose rows are interleaved in memory.
class AttentionTest : public ::testing::TestWithParam<Case> {
protected:
  static constexpr std::int64_t kHeads = 3, kDepth = 4, kWidth = 5;

  std::int64_t rowsOf(std::uint32_t tensor) const {
    return tensor == 1 || tensor == 2 || tensor == 7 || tensor == 8
               ? GetParam().keys
               : GetParam().queries;
  }
  static std::int64_t columnsOf(std::uint32_t tensor) {
    bool isDeep = tensor == 0 || tensor == 1 || tensor == 6 || tensor == 7;
    return isDeep ? kDepth : kWidth;
  }
  View add(bool isF32 = false) {
    auto tensor = static_cast<std::uint32_t>(tensors.plan.buffers.size());
    std::int64_t columns = columnsOf(tensor);
    tensors.add(isF32 ? DType::F32 : GetParam().dtype,
                {rowsOf(tensor), kHeads, columns});
    return {tensor, 0, {columns, kHeads * columns, 1}, {}};
  }
  double read(const Program &program, std::uint32_t tensor, std::int64_t head,
              std::int64_t row, std::int64_t column) const {
    return readElement(tensorOf(program, tensor),
                       (row * kHeads + head) * columnsOf(tensor) + column);
  }

  Tensors tensors;
};
} // namespace

TEST_P(AttentionTest, IsTheSoftmaxAndItsGradient) {
  const Case &c = GetParam();
  Attention a;
  a.query = add();
  a.key = add();
  a.value = add();
  a.y = add(/*isF32=*/true);
  a.batch = {kHeads};
  a.queries = c.queries;
  a.keys = c.keys;
  a.depth = kDepth;
  a.width = kWidth;
  a.scale = 0.75;
  a.causal = c.causal;
  std::uint32_t lse = tensors.add(DType::F32, {kHeads, c.queries});
  a.lse = {lse, 0, {c.queries, 1}, {}};
  Attention backward = a;
  backward.gradients.emplace();
  backward.gradients->dy = add();
  backward.gradients->dquery = add(/*isF32=*/true);
  backward.gradients->dkey = add(/*isF32=*/true);
  backward.gradients->dvalue = add(/*isF32=*/true);
  tensors.plan.records = {{"attention", a}, {"gradients", backward}};
  Program program = tensors.load(Contraction::Auto, 2);
  for (std::uint32_t tensor : {0u, 1u, 2u, 5u})
    fillExactly(program, tensor);
  ASSERT_TRUE(program.run());

  std::vector<double> query, key, value;
  auto load = [&](std::int64_t head) {
    for (auto [to, tensor] :
         {std::pair(&query, 0u), {&key, 1u}, {&value, 2u}}) {
      to->clear();
      for (std::int64_t i = 0; i < rowsOf(tensor); ++i)
        for (std::int64_t j = 0; j < columnsOf(tensor); ++j)
          to->push_back(read(program, tensor, head, i, j));
    }
  };
  // Returns row `i` of the result, followed by its log-sum-exp.
  auto compute = [&](std::int64_t i) {
    std::vector<double> y(kWidth + 1);
    for (std::int64_t j = 0; j < (c.causal ? i + 1 : c.keys); ++j) {
      double score = 0;
      for (std::int64_t l = 0; l < kDepth; ++l)
        score += a.scale * query[i * kDepth + l] * key[j * kDepth + l];
      for (std::int64_t e = 0; e < kWidth; ++e)
        y[e] += std::exp(score) * value[j * kWidth + e];
      y[kWidth] += std::exp(score);
    }
    for (std::int64_t e = 0; e < kWidth; ++e)
      y[e] /= y[kWidth];
    y[kWidth] = std::log(y[kWidth]);
    return y;
  };
  // Probabilities and their factors are below 1.
  double unit = c.dtype == DType::F32 ? 0x1p-20 : 2 * halfUlp(c.dtype, 1);
  for (std::int64_t head = 0; head < kHeads; ++head) {
    load(head);
    for (std::int64_t i = 0; i < c.queries; ++i) {
      std::vector<double> y = compute(i);
      for (std::int64_t e = 0; e < kWidth; ++e)
        ASSERT_NEAR(read(program, 3, head, i, e), y[e], unit);
      ASSERT_NEAR(readElement(tensorOf(program, lse), head * c.queries + i),
                  y[kWidth], 0x1p-20);
    }
    auto weigh = [&] {
      double sum = 0;
      for (std::int64_t i = 0; i < c.queries; ++i) {
        std::vector<double> y = compute(i);
        for (std::int64_t e = 0; e < kWidth; ++e)
          sum += y[e] * read(program, 5, head, i, e);
      }
      return sum;
    };
    constexpr double kStep = 0x1p-14;
    for (auto [of, gradient] :
         {std::pair(&query, 6u), {&key, 7u}, {&value, 8u}})
      for (std::size_t n = 0; n < of->size(); ++n) {
        double before = (*of)[n];
        (*of)[n] = before + kStep;
        double above = weigh();
        (*of)[n] = before - kStep;
        double slope = (above - weigh()) / (2 * kStep);
        (*of)[n] = before;
        auto columns = static_cast<std::size_t>(columnsOf(gradient));
        ASSERT_NEAR(read(program, gradient, head,
                         static_cast<std::int64_t>(n / columns),
                         static_cast<std::int64_t>(n % columns)),
                    slope, static_cast<double>(c.queries + c.keys) * unit);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionTest,
                         ::testing::Values(Case{DType::F32, false, 6, 9},
                                           Case{DType::F32, true, 7, 7},
                                           Case{DType::BF16, false, 9, 5},
                                           Case{DType::F16, true, 8, 8}));

/// Heads with a stride of 0 read the same keys; a grouped record also adds up
/// their gradients.
TEST(Attention, HeadsOfAGroupShareKeysAndAddTheirGradients) {
  constexpr std::int64_t kGroups = 2, kHeads = 3, kRows = 5, kColumns = 4;
  Tensors tensors;
  auto add = [&](std::int64_t heads) {
    std::uint32_t tensor =
        tensors.add(DType::F32, {kGroups, heads, kRows, kColumns});
    return View{tensor,
                0,
                {heads * kRows * kColumns, heads == 1 ? 0 : kRows * kColumns,
                 kColumns, 1},
                {}};
  };
  Attention a;
  a.batch = {kGroups, kHeads};
  a.queries = a.keys = kRows;
  a.depth = a.width = kColumns;
  a.scale = 0.5;
  a.causal = true;
  a.query = add(kHeads);
  a.key = add(1);
  a.value = add(1);
  View dy = add(kHeads);
  std::vector<Record> records;
  std::vector<Attention> calls;
  for (bool grouped : {true, false}) {
    a.grouped = grouped;
    a.y = add(kHeads);
    a.lse = {tensors.add(DType::F32, {kGroups, kHeads, kRows}),
             0,
             {kHeads * kRows, kRows, 1},
             {}};
    Attention gradients = a;
    std::int64_t heads = grouped ? 1 : kHeads;
    gradients.gradients = {dy, add(kHeads), add(heads), add(heads)};
    records.push_back({"attention", a});
    records.push_back({"gradients", gradients});
    calls.push_back(gradients);
  }
  tensors.plan.records = records;
  Program program = tensors.load(Contraction::Auto, 2);
  for (const View *view : {&a.query, &a.key, &a.value, &dy})
    fillExactly(program, view->buffer);
  ASSERT_TRUE(program.run());
  auto read = [&](const View &view, std::int64_t element) {
    return readElement(tensorOf(program, view.buffer), element);
  };
  constexpr std::int64_t kEach = kRows * kColumns;
  for (std::int64_t i = 0; i < kGroups * kHeads * kEach; ++i) {
    ASSERT_EQ(read(calls[0].y, i), read(calls[1].y, i));
    ASSERT_EQ(read(calls[0].gradients->dquery, i),
              read(calls[1].gradients->dquery, i));
  }
  for (auto view : {&Attention::Gradients::dkey, &Attention::Gradients::dvalue})
    for (std::int64_t group = 0; group < kGroups; ++group)
      for (std::int64_t i = 0; i < kEach; ++i) {
        double sum = 0, size = 0;
        for (std::int64_t head = 0; head < kHeads; ++head) {
          double part = read((*calls[1].gradients).*view,
                             (group * kHeads + head) * kEach + i);
          sum += part;
          size += std::fabs(part);
        }
        ASSERT_NEAR(read((*calls[0].gradients).*view, group * kEach + i), sum,
                    0x1p-20 * size);
      }
}
