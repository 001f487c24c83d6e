//===- ParallelWrites.cpp - Write conflicts in parallel loops -------------===//

#include "ParallelWrites.h"
#include "ViewBounds.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

void ParallelWrites::add(const Buffer &buffer, const View &view,
                         std::span<const std::int64_t> strides,
                         std::span<const std::int64_t> sizes,
                         std::span<const std::int64_t> counts,
                         std::size_t depth, const std::string &part) {
  if (counts[depth] == 1)
    return;
  const std::int64_t bytes = byteSize(buffer.dtype);
  Write write;
  write.part = part;
  View first = view;
  first.steps.resize(counts.size());
  for (std::size_t d = 0; d <= depth; ++d)
    write.steps.push_back(std::exchange(first.steps[d], 0) * bytes);
  auto endOf = [&](const View &view) {
    return buffer.offset +
           (*lastElement(view, strides, sizes, counts) + 1) * bytes;
  };
  write.begin = buffer.offset + view.offset * bytes;
  write.end = endOf(view);
  write.endOfFirst = endOf(first);
  write.shape = {bytes};
  for (std::size_t d = 0; d < sizes.size(); ++d)
    write.shape.insert(write.shape.end(), {sizes[d], strides[d]});
  for (std::size_t d = depth + 1; d < counts.size(); ++d)
    write.shape.insert(write.shape.end(), {counts[d], first.steps[d]});
  writes.push_back(std::move(write));
}

std::optional<std::pair<std::string, std::string>>
ParallelWrites::findConflict() {
  std::sort(writes.begin(), writes.end(),
            [](const Write &a, const Write &b) { return a.begin < b.begin; });
  for (std::size_t i = 0, next; i < writes.size(); i = next) {
    // A group of views that overlap, directly or transitively.
    const Write &first = writes[i];
    std::uint64_t end = first.end, endOfFirst = first.endOfFirst;
    bool isOne = true;
    for (next = i + 1; next < writes.size() && writes[next].begin < end;
         ++next) {
      const Write &write = writes[next];
      end = std::max(end, write.end);
      endOfFirst = std::max(endOfFirst, write.endOfFirst);
      isOne &= write.begin == first.begin && write.shape == first.shape;
      bool movesAlong = write.steps == first.steps;
      if (!movesAlong ||
          (!isOne && endOfFirst - first.begin >
                         static_cast<std::uint64_t>(first.steps.back())))
        return std::pair(first.part, write.part);
    }
  }
  return std::nullopt;
}
