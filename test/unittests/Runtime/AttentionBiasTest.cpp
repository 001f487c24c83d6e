//===- AttentionBiasTest.cpp - Gradients of attention biases --------------===//
// Compares them with finite differences of a weighted sum of the results, which
// are computed in f64 by the definition of attention.
//===----------------------------------------------------------------------===//

#include "OneRecord.h"

using namespace binade;
using namespace binade::plan;

namespace {
constexpr std::int64_t kSamples = 2, kHeads = 3, kQueries = 4, kKeys = 5,
                       kColumns = 2;

/// Attention with a bias for all samples, one for all heads and queries, and
/// one for all keys.
class AttentionBiasTest : public ::testing::Test {
protected:
  using Sizes = std::vector<std::int64_t>;

  View add(const Sizes &sizes) {
    View view{tensors.add(DType::F32, sizes), 0, Sizes(sizes.size()), {}};
    std::int64_t stride = 1;
    for (std::size_t axis = sizes.size(); axis-- > 0; stride *= sizes[axis])
      view.strides[axis] = sizes[axis] == 1 ? 0 : stride;
    return view;
  }
  /// Reads all elements of a view, expanded to `sizes`.
  static std::vector<double> read(const Program &program, const View &view,
                                  const Sizes &sizes) {
    Tensor tensor = tensorOf(program, view.buffer);
    std::int64_t count = 1;
    for (std::int64_t size : sizes)
      count *= size;
    std::vector<double> elements;
    for (std::int64_t i = 0; i < count; ++i)
      elements.push_back(readElement(tensor, find(view, sizes, i)));
    return elements;
  }
  /// Returns the element of a view that is broadcast to element `number`.
  static std::int64_t find(const View &view, const Sizes &sizes,
                           std::int64_t number) {
    std::int64_t element = 0;
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      element += number % sizes[axis] * view.strides[axis];
      number /= sizes[axis];
    }
    return element;
  }

  Tensors tensors;
};
} // namespace

TEST_F(AttentionBiasTest, AreSumsOverTheAxesOfTheBroadcast) {
  const Sizes ofQuery = {kSamples, kHeads, kQueries, kColumns},
              ofKey = {kSamples, kHeads, kKeys, kColumns},
              ofScores = {kSamples, kHeads, kQueries, kKeys};
  Attention a;
  a.batch = {kSamples, kHeads};
  a.queries = kQueries;
  a.keys = kKeys;
  a.depth = a.width = kColumns;
  a.scale = 0.5;
  a.query = add(ofQuery);
  a.key = add(ofKey);
  a.value = add(ofKey);
  a.y = add(ofQuery);
  a.lse = add({kSamples, kHeads, kQueries});
  const std::vector<Sizes> shapes = {{1, kHeads, kQueries, kKeys},
                                     {kSamples, 1, 1, kKeys},
                                     {1, 1, kQueries, 1}};
  for (const Sizes &shape : shapes)
    a.extras.biases.push_back(add(shape));
  a.extras.softcap = 1.5;
  Attention backward = a;
  backward.gradients = {add(ofQuery), add(ofQuery), add(ofKey), add(ofKey)};
  for (std::int64_t bias : {0, 1, 2})
    backward.gradients->dbiases.push_back({bias, add(shapes[bias])});
  tensors.plan.records = {{"attention", a}, {"gradients", backward}};
  Program program = tensors.load(Contraction::Auto, 2);
  std::vector<View> inputs = a.extras.biases;
  inputs.insert(inputs.end(),
                {a.query, a.key, a.value, backward.gradients->dy});
  for (const View &view : inputs)
    fillExactly(program, view.buffer);
  ASSERT_TRUE(program.run());

  auto query = read(program, a.query, ofQuery),
       key = read(program, a.key, ofKey), value = read(program, a.value, ofKey),
       dy = read(program, backward.gradients->dy, ofQuery);
  std::vector<std::vector<double>> biases;
  for (const View &bias : a.extras.biases)
    biases.push_back(read(program, bias, ofScores));
  // Returns the sum of dy y.
  auto weigh = [&] {
    double sum = 0;
    for (std::int64_t row = 0; row < kSamples * kHeads * kQueries; ++row) {
      double total = 0, weighted = 0;
      for (std::int64_t j = 0; j < kKeys; ++j) {
        std::int64_t other = row / kQueries * kKeys + j;
        double score = 0, along = 0;
        for (std::int64_t l = 0; l < kColumns; ++l) {
          score +=
              a.scale * query[row * kColumns + l] * key[other * kColumns + l];
          along += dy[row * kColumns + l] * value[other * kColumns + l];
        }
        score = a.extras.softcap * std::tanh(score / a.extras.softcap);
        for (const std::vector<double> &bias : biases)
          score += bias[row * kKeys + j];
        total += std::exp(score);
        weighted += std::exp(score) * along;
      }
      sum += weighted / total;
    }
    return sum;
  };
  constexpr double kStep = 0x1p-14;
  for (std::size_t bias = 0; bias < biases.size(); ++bias) {
    const View &view = a.extras.biases[bias];
    Tensor found =
        tensorOf(program, backward.gradients->dbiases[bias].view.buffer);
    auto count = static_cast<std::int64_t>(found.as<float>().size());
    for (std::int64_t element = 0; element < count; ++element) {
      auto move = [&](double step) {
        for (std::size_t i = 0; i < biases[bias].size(); ++i)
          if (find(view, ofScores, static_cast<std::int64_t>(i)) == element)
            biases[bias][i] += step;
      };
      move(kStep);
      double above = weigh();
      move(-2 * kStep);
      double below = weigh();
      move(kStep);
      EXPECT_NEAR(readElement(found, element), (above - below) / (2 * kStep),
                  0x1p-20 * kSamples * kHeads * kQueries)
          << "element " << element << " of bias " << bias;
    }
  }
}
