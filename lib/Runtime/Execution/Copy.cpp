//===- Copy.cpp - Strided copies ------------------------------------------===//
//
// The innermost loop runs over the axis with the smallest stride in the
// destination. The axis with the smallest stride in the source is blocked
// together with it, so that a transposition reads and writes whole cache lines.
//
//===----------------------------------------------------------------------===//

#include "Operation.h"
#include <algorithm>
#include <cstring>

using namespace binade;
using namespace binade::plan;

namespace {
struct Axis {
  std::int64_t size;
  std::int64_t from, to; ///< Strides in source and destination, in elements.
};

class CopyOperation : public Operation {
public:
  CopyOperation(const Copy &copy, const Memory &memory);
  void run(const ExecutionContext &context) override;

private:
  template <typename Element> void runAs(const ExecutionContext &context);

  Address from, to;
  std::size_t elementSize;
  std::vector<Axis> outer; ///< Iterated over in parallel.
  Axis middle, inner;
};
} // namespace

/// Drops axes of length 1, sorts the others by their strides in the
/// destination, the largest first, and merges those that form one axis in both
/// tensors.
static std::vector<Axis> merge(std::vector<Axis> axes) {
  std::erase_if(axes, [](const Axis &axis) { return axis.size == 1; });
  std::sort(axes.begin(), axes.end(), [](const Axis &a, const Axis &b) {
    return std::pair(a.to, a.from) > std::pair(b.to, b.from);
  });
  std::vector<Axis> merged;
  for (const Axis &axis : axes) {
    if (!merged.empty() && merged.back().to == axis.to * axis.size &&
        merged.back().from == axis.from * axis.size) {
      merged.back() = {merged.back().size * axis.size, axis.from, axis.to};
      continue;
    }
    merged.push_back(axis);
  }
  return merged;
}

CopyOperation::CopyOperation(const Copy &copy, const Memory &memory)
    : from(memory.addressOf(copy.from)), to(memory.addressOf(copy.to)),
      elementSize(byteSize(memory.typeOf(copy.from))) {
  std::vector<Axis> axes;
  for (std::size_t d = 0; d < copy.sizes.size(); ++d)
    axes.push_back({copy.sizes[d], copy.from.strides[d], copy.to.strides[d]});
  axes = merge(std::move(axes));
  // The last axis has the smallest stride in the destination.
  inner = middle = {1, 0, 0};
  if (!axes.empty()) {
    inner = axes.back();
    axes.pop_back();
  }
  auto smallest = std::min_element(
      axes.begin(), axes.end(),
      [](const Axis &a, const Axis &b) { return a.from < b.from; });
  if (smallest != axes.end()) {
    middle = *smallest;
    axes.erase(smallest);
  }
  outer = std::move(axes);
}

template <typename Element>
void CopyOperation::runAs(const ExecutionContext &context) {
  constexpr std::int64_t edge = 64; // Of a block, in elements.
  auto *source = reinterpret_cast<const Element *>(from.at(context.iteration));
  auto *target = reinterpret_cast<Element *>(to.at(context.iteration));
  bool isContiguous = inner.from == 1 && inner.to == 1;
  // The parallel loop iterates over blocks of the two inner axes.
  std::int64_t innerEdge = isContiguous ? 1 << 14 : edge;
  std::int64_t columns = (inner.size + innerEdge - 1) / innerEdge;
  // A block of short rows has more of them.
  std::int64_t rowEdge = std::max<std::int64_t>(
      edge, innerEdge / std::max<std::int64_t>(1, inner.size));
  std::int64_t rows = (middle.size + rowEdge - 1) / rowEdge;
  std::int64_t blocks = rows * columns;
  for (const Axis &axis : outer)
    blocks *= axis.size;
  auto copyBlock = [&](std::int64_t block, unsigned) {
    std::int64_t column = block % columns * innerEdge;
    block /= columns;
    std::int64_t row = block % rows * rowEdge;
    block /= rows;
    const Element *in = source + row * middle.from + column * inner.from;
    Element *out = target + row * middle.to + column * inner.to;
    for (auto axis = outer.rbegin(); axis != outer.rend(); ++axis) {
      in += block % axis->size * axis->from;
      out += block % axis->size * axis->to;
      block /= axis->size;
    }
    std::int64_t height = std::min(rowEdge, middle.size - row);
    std::int64_t width = std::min(innerEdge, inner.size - column);
    for (std::int64_t i = 0; i < height;
         ++i, in += middle.from, out += middle.to) {
      if (isContiguous) {
        std::memmove(out, in,
                     static_cast<std::size_t>(width) * sizeof(Element));
        continue;
      }
      for (std::int64_t j = 0; j < width; ++j)
        out[j * inner.to] = in[j * inner.from];
    }
  };
  context.team->parallelFor(context.threads, blocks, copyBlock);
}

void CopyOperation::run(const ExecutionContext &context) {
  switch (elementSize) {
  case 1:
    return runAs<std::uint8_t>(context);
  case 2:
    return runAs<std::uint16_t>(context);
  case 4:
    return runAs<std::uint32_t>(context);
  default:
    return runAs<std::uint64_t>(context);
  }
}

std::unique_ptr<Operation> binade::createOperation(const Copy &copy,
                                                   const Memory &memory) {
  return std::make_unique<CopyOperation>(copy, memory);
}
