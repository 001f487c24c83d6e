//===- PredictedTimes.cpp - How long a plan takes on a target -------------===//

#include "PredictedTimes.h"
#include "binade/Plan/ShardStates.h"
#include "binade/Runtime/Profile.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <utility>

using namespace mlir::binade;
using namespace ::binade::plan;
using ::binade::DType;
using ::binade::RecordCost;

namespace {
class Predictor {
public:
  Predictor(const ::binade::Plan &plan, const TargetCosts &costs)
      : plan(plan), costs(costs) {}

  double predict(const Record &record) {
    if (auto *loop = std::get_if<Loop>(&record.body))
      return predictLoop(*loop);
    if (costs.gpu) {
      if (auto *matmul = std::get_if<Matmul>(&record.body))
        return costs.gpu->predictMatmul(getShape(*matmul));
      if (auto *attention = std::get_if<Attention>(&record.body))
        if (double seconds = predictGradients(*attention))
          return seconds;
    }
    RecordCost cost = ::binade::costOf(record, plan.buffers, loops);
    return start() + static_cast<double>(cost.bytes) / getBytesPerSecond() +
           cost.flops / 2 / getRates(cost.dtype).products;
  }

private:
  double predictLoop(const Loop &loop) {
    loops.push_back(loop.count);
    std::int64_t outer =
        std::exchange(slots, std::max<std::int64_t>({slots, loop.slots, 1}));
    double seconds = 0;
    for (const Record &record : loop.body)
      seconds += predict(record);
    slots = outer;
    loops.pop_back();
    return static_cast<double>(loop.count) * seconds;
  }

  /// Iterations of a parallel loop start at the same time.
  double start() const { return costs.launch / static_cast<double>(slots); }

  unsigned getBytes(const View &view) const {
    return byteSize(plan.buffers[view.buffer].dtype);
  }

  MatmulShape getShape(const Matmul &matmul) const {
    MatmulShape shape{.m = matmul.m, .n = matmul.n, .k = matmul.k};
    for (std::int64_t size : matmul.batch)
      shape.batch *= size;
    shape.bytes = std::max(getBytes(matmul.lhs), getBytes(matmul.rhs));
    shape.outBytes = getBytes(matmul.out);
    shape.accumulates = matmul.accumulate;
    return shape;
  }

  /// Returns the seconds of gradients of attention by the faster
  /// implementation, or 0 if there is no law for them.
  double predictGradients(const Attention &attention) const {
    if (!attention.gradients)
      return 0;
    AttentionShape shape{.heads = llvm::product_of(attention.batch),
                         .queries = attention.queries,
                         .keys = attention.keys,
                         .depth = attention.depth,
                         .width = attention.width,
                         .causal = attention.causal,
                         .grouped = attention.grouped};
    double kernel = costs.gpu->predictKernelGradients(shape),
           library = costs.gpu->predictLibraryGradients(shape, 1);
    return kernel && library ? std::min(kernel, library)
                             : std::max(kernel, library);
  }

  /// Returns the bytes that an elementwise kernel reads or writes per second.
  double getBytesPerSecond() const {
    const FormatRates &rates = costs.formats.front();
    return rates.elements * rates.format.getIntOrFloatBitWidth() / 8;
  }

  /// Returns the rates of a format, or those of the first format that the
  /// target was measured in.
  const FormatRates &getRates(DType dtype) const {
    unsigned bits = 8 * byteSize(dtype);
    for (const FormatRates &rates : costs.formats)
      if (rates.format.getIntOrFloatBitWidth() == std::max(bits, 16u) &&
          (dtype == DType::F16) == rates.format.isF16())
        return rates;
    return costs.formats.front();
  }

  const ::binade::Plan &plan;
  const TargetCosts &costs;
  std::vector<std::int64_t> loops; ///< Iterations of the surrounding loops.
  std::int64_t slots = 1;          ///< Iterations that run at the same time.
};
} // namespace

std::vector<double> predictSeconds(const std::vector<Record> &records,
                                   const ::binade::Plan &plan,
                                   const TargetCosts &costs) {
  Predictor predictor(plan, costs);
  std::vector<double> seconds;
  for (const Record &record : records)
    seconds.push_back(predictor.predict(record));
  return seconds;
}

double predictShardedSeconds(const ::binade::Plan &plan,
                             const TargetCosts &costs) {
  std::map<std::size_t, double> sharded; // Elements by record.
  for (const auto &parameter : ::binade::listShardedParameters(plan))
    sharded[parameter.record] += static_cast<double>(parameter.elements);
  Predictor predictor(plan, costs);
  double seconds = 0;
  for (auto [index, elements] : sharded) {
    const Record &record = plan.records[index];
    double all = 0;
    for (const Segment &segment : std::get<Launch>(record.body).segments)
      all += static_cast<double>(segment.extent);
    seconds += (predictor.predict(record) - costs.launch) * elements / all;
  }
  return seconds;
}
