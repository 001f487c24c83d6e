//===- FindOverflow.cpp - Where a step first left the numbers -------------===//

#include "ProgramImplementation.h"
#include "Views.h"
#include "binade/Container/FloatConversion.h"
#include <cmath>
#include <cstring>
#include <set>

using namespace binade;
using namespace binade::plan;

namespace {
struct Range {
  std::uint64_t elements = 0, notFinite = 0, minusInfinite = 0;
  double largest = 0;

  void add(double value) {
    ++elements;
    if (std::isfinite(value)) {
      largest = std::max(largest, std::fabs(value));
      return;
    }
    ++notFinite;
    minusInfinite += value == -INFINITY;
  }
  bool isOverflow() const { return notFinite > minusInfinite; }
};

class OverflowFinder {
public:
  OverflowFinder(const Plan &plan, const std::byte *arena);

  /// Looks at what record `number` read and wrote; true once it made an
  /// overflow.
  bool visit(std::size_t number);
  std::optional<Overflow> found;

private:
  std::set<std::uint32_t> findBuffers(const Record &record) const;
  Range measure(std::uint32_t buffer) const;
  std::string findReader(std::size_t writer, std::uint32_t buffer) const;

  const Plan &plan;
  const std::byte *arena;
  /// Buffers whose bytes need not all be values: other records write other
  /// parts, or other slots.
  std::set<std::uint32_t> partial;
  /// How many records of the plan use a buffer, and ports.
  std::vector<unsigned> users;
  /// What was not finite before the step.
  std::set<std::uint32_t> before;
};
} // namespace

OverflowFinder::OverflowFinder(const Plan &plan, const std::byte *arena)
    : plan(plan), arena(arena), users(plan.buffers.size()) {
  for (const Record &record : plan.records) {
    std::set<std::uint32_t> used;
    forEachView(record, [&](const View &view) {
      used.insert(view.buffer);
      if (view.offset != 0 || plan.buffers[view.buffer].slot != 0)
        partial.insert(view.buffer);
    });
    for (std::uint32_t buffer : used)
      ++users[buffer];
  }
  for (const Port &port : plan.ports) {
    ++users[port.buffer];
    if (port.role <= Role::Constant && measure(port.buffer).notFinite > 0)
      before.insert(port.buffer);
  }
}

/// The buffers of a loop that only it uses hold pieces of values.
std::set<std::uint32_t>
OverflowFinder::findBuffers(const Record &record) const {
  std::set<std::uint32_t> buffers;
  bool isLoop = std::holds_alternative<Loop>(record.body);
  forEachView(record, [&](const View &view) {
    if (!partial.contains(view.buffer) && (!isLoop || users[view.buffer] > 1))
      buffers.insert(view.buffer);
  });
  return buffers;
}

template <typename T, typename Convert>
static Range measureAs(const std::byte *data, std::uint64_t bytes,
                       Convert convert) {
  Range range;
  for (std::uint64_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
    T value;
    std::memcpy(&value, data + at, sizeof(T));
    range.add(convert(value));
  }
  return range;
}

Range OverflowFinder::measure(std::uint32_t index) const {
  const Buffer &buffer = plan.buffers[index];
  const std::byte *data = arena + buffer.offset;
  auto same = [](auto value) { return static_cast<double>(value); };
  switch (buffer.dtype) {
  case DType::F64:
    return measureAs<double>(data, buffer.bytes, same);
  case DType::F32:
    return measureAs<float>(data, buffer.bytes, same);
  case DType::F16:
    return measureAs<std::uint16_t>(data, buffer.bytes, f16ToFloat);
  case DType::BF16:
    return measureAs<std::uint16_t>(data, buffer.bytes, bf16ToFloat);
  default:
    return {};
  }
}

std::string OverflowFinder::findReader(std::size_t writer,
                                       std::uint32_t buffer) const {
  for (const Record &record : std::span(plan.records).subspan(writer + 1))
    if (findBuffers(record).contains(buffer))
      return record.label;
  return "";
}

bool OverflowFinder::visit(std::size_t number) {
  const Record &record = plan.records[number];
  std::optional<std::uint32_t> bad;
  bool isOverflow = false;
  double operands = 0;
  for (std::uint32_t buffer : findBuffers(record)) {
    Range range = measure(buffer);
    bool counts = range.notFinite > 0 && !before.contains(buffer) &&
                  (range.isOverflow() || !found);
    if (!counts || isOverflow) {
      operands = std::max(operands, range.largest);
      continue;
    }
    isOverflow = range.isOverflow();
    bad = buffer;
    found = Overflow{record.label,
                     plan.buffers[buffer].dtype,
                     "",
                     range.elements,
                     range.notFinite,
                     range.largest,
                     0};
  }
  if (bad) {
    found->operands = operands;
    found->reader = findReader(number, *bad);
  }
  return isOverflow;
}

std::optional<Overflow> Program::findOverflow() {
  // What is left of other steps means nothing.
  for (std::span<std::byte> span : implementation->transient)
    std::memset(span.data(), 0, span.size());
  OverflowFinder finder(implementation->plan, implementation->arena.data());
  implementation->executor.run(
      [&](std::size_t number) { return !finder.visit(number); });
  return finder.found;
}
