//===- GpuCosts.cpp - Predicted times on a GPU ----------------------------===//

#include "binade/Costs/GpuCosts.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::binade;

namespace {
struct TileSize {
  int64_t rows, columns;
};
} // namespace

/// What a library chooses from: sizes of tiles, and parts of the contracted
/// axis.
static constexpr TileSize kTiles[] = {{128, 256}, {128, 128}, {64, 128},
                                      {64, 256},  {256, 128}, {192, 128}};
static constexpr int64_t kParts[] = {1, 2, 3, 4, 6, 8, 12, 16};
/// Terms of a part, at least.
static constexpr int64_t kMinTerms = 256;
/// Seconds to start the kernel that adds the parts.
static constexpr double kAddParts = 2e-6;

/// Weights of measured matmuls fall with the squared distance of their shapes;
/// the law itself has the weight of a shape that is so far away.
static constexpr double kFar = 9, kNear = 0.05;

static double weigh(double squaredDistance) {
  return std::pow(squaredDistance + kNear, -2.5);
}

/// Returns the squared distance of two shapes in doublings: of the smaller and
/// the larger axis of the result, and of the contracted axis.
static double measureDistance(const MatmulShape &shape,
                              const MeasuredMatmul &other) {
  auto square = [](int64_t a, int64_t b) {
    double doublings = std::log2(double(a) / double(b));
    return doublings * doublings;
  };
  return square(std::min(shape.m, shape.n), std::min(other.m, other.n)) +
         square(std::max(shape.m, shape.n), std::max(other.m, other.n)) +
         square(shape.k, other.k);
}

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

GpuCosts::GpuCosts(GpuRates given) : rates(std::move(given)) {
  for (const MeasuredMatmul &matmul : rates.matmuls) {
    MatmulShape shape{matmul.m, matmul.n, matmul.k, 1, unsigned(matmul.bytes)};
    corrections.push_back(std::log(matmul.us * 1e-6 / applyLaw(shape)));
  }
}

const MatmulLaw &GpuCosts::getLaw(unsigned bytes) const {
  return bytes == 1 ? rates.fp8 : bytes == 2 ? rates.bf16 : rates.f32;
}

double GpuCosts::applyLaw(const MatmulShape &shape) const {
  const MatmulLaw &law = getLaw(shape.bytes);
  double elements = double(shape.m) * shape.n * shape.batch;
  double best = std::numeric_limits<double>::infinity();
  for (TileSize size : kTiles)
    for (int64_t parts : kParts) {
      if (parts > 1 && shape.k < parts * kMinTerms)
        continue;
      int64_t tiles = divideUp(shape.m, size.rows) *
                      divideUp(shape.n, size.columns) * shape.batch * parts;
      double sides = 1.0 / size.rows + 1.0 / size.columns;
      double rate = law.rate / rates.multiprocessors / (1 + law.edge * sides);
      double tile = 2.0 * size.rows * size.columns * shape.k / parts / rate;
      double seconds =
          divideUp(tiles, rates.multiprocessors) * (tile + law.wave);
      if (parts > 1)
        seconds += kAddParts + (4 * parts + 2) * elements / rates.memory;
      best = std::min(best, seconds);
    }
  double read =
      double(shape.bytes) * shape.batch * shape.k * (shape.m + shape.n);
  return law.start + std::max(best, (read + 2 * elements) / rates.memory);
}

double GpuCosts::correct(const MatmulShape &shape) const {
  double sum = 0, weights = weigh(kFar);
  for (auto [matmul, correction] : llvm::zip(rates.matmuls, corrections))
    if (matmul.bytes == shape.bytes) {
      double weight = weigh(measureDistance(shape, matmul));
      sum += weight * correction;
      weights += weight;
    }
  return sum / weights;
}

double GpuCosts::predictMatmul(const MatmulShape &shape) const {
  double seconds = applyLaw(shape) * std::exp(correct(shape));
  double elements = double(shape.m) * shape.n * shape.batch;
  seconds += rates.epilogue.exposed * elements * (double(shape.outBytes) - 2) /
             rates.memory;
  if (shape.accumulates)
    seconds += elements * shape.outBytes / rates.epilogue.accumulateRate;
  return seconds;
}

double AttentionShape::countScores() const {
  constexpr int64_t kTile = 128; // Scores of cuDNN's tile, along each axis.
  double all = double(heads) * queries * keys;
  if (!causal)
    return all;
  auto tiles = double(divideUp(queries, kTile));
  return all * (tiles + 1) / (2 * tiles);
}

uint64_t AttentionShape::countWorkspaceBytes() const {
  constexpr int64_t kRows = 64, kNarrow = 64, kWide = 128;
  int64_t padded = getColumns() <= kNarrow ? kNarrow : kWide,
          blocks = divideUp(keys, 2 * padded),
          rows = divideUp(queries, kRows) * kRows,
          bytes = sizeof(float) * (blocks * rows * padded + queries);
  // What each head adds to a shared gradient is rounded to 16 bits.
  if (grouped)
    bytes += 2 * keys * (depth + width);
  return bytes * heads;
}

double GpuCosts::predictLibraryGradients(const AttentionShape &shape,
                                         int64_t parts) const {
  const AttentionGradientLaw &law = rates.attentionGradients;
  return shape.countScores() *
             (law.score + double(shape.getColumns()) * law.column) +
         double(shape.heads) * double(shape.queries) * law.query +
         double(parts - 1) * law.part;
}

double GpuCosts::predictKernelGradients(const AttentionShape &shape) const {
  const AttentionGradientLaw &law = rates.attentionGradients;
  return shape.countScores() *
         (law.kernelScore + double(shape.getColumns()) * law.kernelColumn);
}
