//===- UnexpectedWrites.cpp - Writes outside of the results ---------------===//
//
// The arena is one allocation, so a device does not detect writes to buffers of
// other records, and multi-tensor kernels have access to the whole arena.
//
//===----------------------------------------------------------------------===//

#include "UnexpectedWrites.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

/// Lists the buffers of operands that the kernel's signature does not contain:
/// workspaces and index faults.
static SmallVector<uint32_t> listWorkspaces(const Execution &execution) {
  SmallVector<uint32_t> buffers;
  for (const plan::Operand &operand : plan::listOperands(execution.record)) {
    bool isAccessed =
        llvm::any_of(execution.accesses, [&](const RecordAccess &access) {
          return access.buffer == operand.view.buffer;
        });
    if (!isAccessed)
      buffers.push_back(operand.view.buffer);
  }
  return buffers;
}

std::optional<UnexpectedWrite> mlir::binade::findUnexpectedWrite(
    const ::binade::Plan &plan, const Execution &execution,
    std::span<const std::byte> before, std::span<const std::byte> after) {
  SmallVector<std::pair<uint64_t, uint64_t>> own;
  for (const RecordAccess &access : execution.accesses)
    if (access.isWritten)
      own.emplace_back(access.offset, access.offset + access.bytes);
  for (uint32_t buffer : listWorkspaces(execution)) {
    const plan::Buffer &memory = plan.buffers[buffer];
    own.emplace_back(memory.offset, memory.offset + memory.bytes);
  }
  llvm::sort(own);
  uint64_t reached = 0;
  std::optional<uint64_t> changed;
  auto compare = [&](uint64_t begin, uint64_t end) {
    if (changed || begin >= end)
      return;
    auto [mine, other] = std::mismatch(
        before.begin() + begin, before.begin() + end, after.begin() + begin);
    if (mine != before.begin() + end)
      changed = mine - before.begin();
  };
  for (auto [begin, end] : own) {
    compare(reached, begin);
    reached = std::max(reached, end);
  }
  compare(reached, after.size());
  if (!changed)
    return std::nullopt;
  // Prefer buffers with a name; ignore bytes between buffers.
  const plan::Buffer *found = nullptr;
  for (const plan::Buffer &buffer : plan.buffers)
    if (buffer.offset <= *changed && *changed < buffer.offset + buffer.bytes &&
        (!found || (found->name.empty() && !buffer.name.empty())))
      found = &buffer;
  if (!found)
    return std::nullopt;
  RecordAccess access;
  access.buffer = found - plan.buffers.data();
  access.offset = found->offset;
  access.bytes = found->bytes;
  access.dtype = found->dtype;
  auto part = [&](std::span<const std::byte> all) {
    return all.subspan(found->offset, found->bytes);
  };
  auto difference = compareBits(found->dtype, part(after), part(before));
  if (!difference)
    return std::nullopt;
  difference->what = "memory outside of the record's results has changed";
  return UnexpectedWrite(access, std::move(*difference));
}
