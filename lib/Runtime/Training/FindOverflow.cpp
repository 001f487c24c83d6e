//===- FindOverflow.cpp - Search for the first non-finite value -----------===//

#include "../Execution/ProgramImplementation.h"
#include "binade/Container/FloatConversion.h"
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

using namespace binade;
using namespace binade::plan;

/// Visits the tensors of a record and the operands of its kernels, but not the
/// scratch memory of libraries.
template <typename Visit>
static void forEachView(const Record &record, Visit visit) {
  for (const Operand &operand : listOperands(record))
    if (operand.isTensor() || operand.use == Operand::Kernel)
      visit(operand.view);
}

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

/// Returns the contents of a buffer, valid until the next call; empty if the
/// device fails.
using Fetch = std::function<std::span<const std::byte>(const Buffer &)>;

class OverflowFinder {
public:
  OverflowFinder(const Plan &plan, Fetch fetch);

  /// Examines the operands of record `number` after its execution. Returns true
  /// if it wrote a NaN or an infinity, other than minus infinity.
  bool visit(std::size_t number);
  std::optional<Overflow> found;

private:
  std::set<std::uint32_t> findBuffers(const Record &record) const;
  Range measure(std::uint32_t buffer) const;
  std::string findReader(std::size_t writer, std::uint32_t buffer) const;

  const Plan &plan;
  Fetch fetch;
  /// Buffers of which records use only parts or slots, so that the other bytes
  /// may be meaningless.
  std::set<std::uint32_t> partial;
  /// The number of records and ports that use each buffer.
  std::vector<unsigned> users;
  /// Buffers of ports that were not finite before the step.
  std::set<std::uint32_t> before;
};
} // namespace

OverflowFinder::OverflowFinder(const Plan &plan, Fetch fetch)
    : plan(plan), fetch(std::move(fetch)), users(plan.buffers.size()) {
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

/// Returns the buffers of `record` to examine. Buffers that only a loop uses
/// contain the values of one iteration and are excluded.
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
static Range measureAs(std::span<const std::byte> bytes, Convert convert) {
  Range range;
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    range.add(convert(value));
  }
  return range;
}

Range OverflowFinder::measure(std::uint32_t index) const {
  const Buffer &buffer = plan.buffers[index];
  if (!isFloat(buffer.dtype))
    return {};
  std::span<const std::byte> bytes = fetch(buffer);
  auto same = [](auto value) { return static_cast<double>(value); };
  switch (buffer.dtype) {
  case DType::F64:
    return measureAs<double>(bytes, same);
  case DType::F32:
    return measureAs<float>(bytes, same);
  case DType::F16:
    return measureAs<std::uint16_t>(bytes, f16ToFloat);
  case DType::BF16:
    return measureAs<std::uint16_t>(bytes, bf16ToFloat);
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
  Implementation &made = *implementation;
  cuda::Engine *engine = made.engine.get();
  // Clears values of earlier steps. If the device fails here, reading the state
  // reports the error.
  if (!made.fillTransient(std::byte(0)) || (engine && !engine->upload()))
    return std::nullopt;
  std::vector<std::byte> copy;
  OverflowFinder finder(
      made.plan, [&](const Buffer &buffer) -> std::span<const std::byte> {
        if (!engine)
          return {made.arena.data() + buffer.offset, buffer.bytes};
        copy.resize(buffer.bytes);
        if (!engine->read(buffer.offset, copy))
          copy.clear();
        return copy;
      });
  auto after = [&](std::size_t number) { return !finder.visit(number); };
  if (!engine)
    made.executor.run(after);
  else if (!engine->run(after))
    return std::nullopt;
  return finder.found;
}
