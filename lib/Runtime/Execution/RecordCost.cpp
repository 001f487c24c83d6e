//===- RecordCost.cpp - Bytes and operations of records -------------------===//

#include "binade/Runtime/Profile.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

namespace {
class CostCounter {
public:
  CostCounter(std::span<const Buffer> buffers,
              std::span<const std::int64_t> counts)
      : buffers(buffers), counts(counts) {}

  RecordCost count(const Launch &launch) const;
  RecordCost count(const Matmul &matmul) const;
  RecordCost count(const Convolution &convolution) const;
  RecordCost count(const Attention &attention) const;
  RecordCost count(const Loop &) const { return {}; }
  /// Returns the cost of a record that moves bytes but computes no contraction.
  template <typename Body> RecordCost count(const Body &body) const {
    return {move(body), 0, DType::F32};
  }

private:
  std::uint64_t sizeOf(const View &view) const {
    return byteSize(buffers[view.buffer].dtype);
  }

  /// Returns the bytes of a view without sizes: those from its start to the end
  /// of the buffer, divided by the iterations that step through them.
  std::uint64_t reach(const View &view) const {
    const Buffer &buffer = buffers[view.buffer];
    std::uint64_t start =
                      static_cast<std::uint64_t>(view.offset) * sizeOf(view),
                  bytes = buffer.bytes - std::min(start, buffer.bytes);
    for (std::size_t d = 0; d < view.steps.size() && d < counts.size(); ++d)
      if (view.steps[d] != 0)
        bytes /= static_cast<std::uint64_t>(counts[d]);
    return bytes;
  }

  /// Returns the bytes of a view with sizes; an axis with stride 0 counts one
  /// element.
  std::uint64_t cover(const View &view,
                      std::span<const std::int64_t> sizes) const {
    std::uint64_t bytes = sizeOf(view);
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (d < view.strides.size() && view.strides[d] != 0)
        bytes *= static_cast<std::uint64_t>(sizes[d]);
    return bytes;
  }

  /// Returns the bytes of all tensors of a record.
  template <typename Body> std::uint64_t move(const Body &body) const {
    std::uint64_t bytes = 0;
    for (const Operand &operand : body.listOperands())
      if (operand.isTensor())
        bytes += operand.isDense && !operand.sizes.empty()
                     ? reach(operand.view)
                     : cover(operand.view, operand.sizes);
    return bytes;
  }

  DType getWider(const View &one, const View &other) const {
    DType a = buffers[one.buffer].dtype, b = buffers[other.buffer].dtype;
    return byteSize(a) < byteSize(b) ? b : a;
  }

  std::span<const Buffer> buffers;
  std::span<const std::int64_t> counts;
};
} // namespace

/// Operands that segments share, such as an optimizer's scalars, count once.
RecordCost CostCounter::count(const Launch &launch) const {
  using Start = std::pair<std::uint32_t, std::int64_t>;
  struct Use {
    std::uint64_t bytes, times;
  };
  std::map<Start, Use> uses;
  for (const Segment &segment : launch.segments) {
    std::map<Start, std::uint64_t> inSegment;
    for (const View &view : segment.operands) {
      Start start(view.buffer, view.offset);
      constexpr std::uint64_t readAndWritten = 2;
      std::uint64_t times = std::min(++inSegment[start], readAndWritten);
      Use &use = uses.try_emplace(start, reach(view), 0).first->second;
      use.times = std::max(use.times, times);
    }
  }
  // Views of the same buffer overlap from the start of the later one on; count
  // the overlap once.
  std::uint64_t bytes = 0;
  for (auto use = uses.begin(); use != uses.end(); ++use) {
    std::uint64_t own = use->second.bytes;
    auto next = std::next(use);
    if (next != uses.end() && next->first.first == use->first.first)
      own -= std::min(own, next->second.bytes);
    bytes += own * use->second.times;
  }
  return {bytes, 0, DType::F32};
}

RecordCost CostCounter::count(const Matmul &matmul) const {
  std::uint64_t bytes = move(matmul);
  std::vector<std::int64_t> sizes = matmul.batch;
  sizes.insert(sizes.end(), {matmul.m, matmul.n});
  if (matmul.accumulate)
    bytes += cover(matmul.out, sizes);
  double flops = 2;
  for (std::int64_t size : sizes)
    flops *= static_cast<double>(size);
  return {bytes, flops * static_cast<double>(matmul.k),
          getWider(matmul.lhs, matmul.rhs), matmul.tf32};
}

RecordCost CostCounter::count(const Convolution &convolution) const {
  // The number of multiplications is the same in all three directions.
  double flops = 2 * static_cast<double>(convolution.batch) *
                 static_cast<double>(convolution.outChannels) *
                 static_cast<double>(convolution.inChannels) /
                 static_cast<double>(convolution.groups);
  for (std::int64_t size : convolution.output)
    flops *= static_cast<double>(size);
  for (std::int64_t size : convolution.kernel)
    flops *= static_cast<double>(size);
  bool readsX = convolution.direction != Convolution::InputGrad,
       readsWeight = convolution.direction != Convolution::WeightGrad;
  const View &left = readsX ? convolution.x : convolution.y;
  const View &right = readsWeight ? convolution.weight : convolution.y;
  return {move(convolution), flops, getWider(left, right)};
}

/// With `causal`, only half of the scores count.
RecordCost CostCounter::count(const Attention &a) const {
  double overDepth = a.gradients ? 3 : 1, overWidth = a.gradients ? 2 : 1;
  double scores = static_cast<double>(a.queries) *
                  static_cast<double>(a.causal ? a.keys + 1 : a.keys) /
                  (a.causal ? 2 : 1);
  for (std::int64_t size : a.batch)
    scores *= static_cast<double>(size);
  return {move(a),
          2 * scores *
              (overDepth * static_cast<double>(a.depth) +
               overWidth * static_cast<double>(a.width)),
          buffers[a.query.buffer].dtype};
}

RecordCost binade::costOf(const Record &record, std::span<const Buffer> buffers,
                          std::span<const std::int64_t> counts) {
  CostCounter counter(buffers, counts);
  return std::visit([&](const auto &body) { return counter.count(body); },
                    record.body);
}

double Ceilings::rooflineSeconds(const RecordCost &cost) const {
  double seconds = 0;
  if (bytesPerSecond > 0)
    seconds = static_cast<double>(cost.bytes) / bytesPerSecond;
  auto peak = flopsPerSecond.find(cost.dtype);
  if (cost.tf32 && tf32FlopsPerSecond > 0)
    seconds = std::max(seconds, cost.flops / tf32FlopsPerSecond);
  else if (peak != flopsPerSecond.end())
    seconds = std::max(seconds, cost.flops / peak->second);
  return seconds;
}
