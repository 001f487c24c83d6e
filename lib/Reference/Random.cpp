//===- Random.cpp - Dropout and its random generator ----------------------===//

#include "Random.h"
#include "Families.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Philox4x32-10 (Salmon et al., 2011).
static std::array<uint32_t, 4> drawWords(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  auto multiply = [](uint32_t x, uint32_t y) {
    uint64_t product = uint64_t(x) * y;
    return std::pair(uint32_t(product >> 32), uint32_t(product));
  };
  for (int round = 0; round < 10; ++round) {
    auto [high0, low0] = multiply(counter[0], 0xD2511F53);
    auto [high1, low1] = multiply(counter[2], 0xCD9E8D57);
    counter = {high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1],
               low0};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

std::array<float, 4> mlir::binade::drawUniform(int64_t index, int64_t seed,
                                               int64_t step, int64_t stream) {
  auto low = [](int64_t x) { return static_cast<uint32_t>(x); };
  auto high = [](int64_t x) {
    return static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32);
  };
  std::array<float, 4> numbers;
  llvm::transform(drawWords({low(index), high(index), low(stream), low(step)},
                            {low(seed), high(seed)}),
                  numbers.begin(), [](uint32_t word) {
                    return static_cast<float>(word >> 8) * 0x1p-24f;
                  });
  return numbers;
}

float mlir::binade::drawElement(int64_t index, int64_t seed, int64_t step,
                                int64_t stream) {
  auto place = static_cast<uint64_t>(index);
  return drawUniform(static_cast<int64_t>(place / 4), seed, step,
                     stream)[place % 4];
}

static void evaluateRandomUniform(RandomUniformOp op, Evaluation &e) {
  ArrayRef<int64_t> index = e[op.getIndex()].getIntegers(),
                    seed = e[op.getSeed()].getIntegers(),
                    step = e[op.getStep()].getIntegers();
  for (auto [i, y] : llvm::enumerate(e.result().getFloats()))
    y = op.getPerCounter() == 1
            ? drawUniform(index[i], seed[i], step[i], op.getStream()).front()
            : drawElement(index[i], seed[i], step[i], op.getStream());
}

/// Dropout and its gradient, which keep the same elements.
template <typename Op> static void evaluateDropout(Op op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  ArrayRef<int64_t> rng = e[op.getRng()].getIntegers();
  double ratio = op.getRatio().convertToDouble();
  for (auto [i, y] : llvm::enumerate(e.result().getFloats())) {
    if (drawUniform(i, rng[0], rng[1], op.getStream()).front() < ratio)
      continue;
    y = x[i] / (1.0 - ratio);
    // The factor and the product are both rounded.
    if (ratio != 0.0)
      e.setError(0, i, 2.0 * e.getRoundoff() * std::fabs(y));
  }
}

void mlir::binade::addRandom(Reference &reference) {
  reference.add<RandomUniformOp>(evaluateRandomUniform);
  reference.add<DropoutOp>(evaluateDropout<DropoutOp>);
  reference.add<DropoutGradOp>(evaluateDropout<DropoutGradOp>);
}
