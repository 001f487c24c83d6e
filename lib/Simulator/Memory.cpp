//===- Memory.cpp - Memory of simulated threads ---------------------------===//

#include "Memory.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;

SharedBytes::SharedBytes(MutableArrayRef<char> bytes, uint64_t address)
    : bytes(bytes), address(address), visits(bytes.size()), isKnown(true) {}

SharedBytes::SharedBytes(size_t size, uint64_t address)
    : own(size), bytes(own), address(address), visits(size), isKnown(false) {}

void SharedBytes::forget() { visits.assign(bytes.size(), Byte()); }

bool SharedBytes::Visit::isUnordered(const Accessor &who,
                                     AccessKind access) const {
  if (block == kNoThread || (isUpdate && access == AccessKind::Update))
    return false;
  if (block != who.block)
    return true; // Blocks run in any order.
  return epoch == who.epoch && thread != who.thread;
}

static StringRef getVerb(AccessKind access) {
  return access == AccessKind::Read    ? "reads"
         : access == AccessKind::Write ? "writes"
                                       : "updates";
}

std::optional<std::string> SharedBytes::check(const Accessor &who,
                                              uint64_t first, size_t count,
                                              AccessKind access) {
  if (first > size() || count > size() - first)
    return llvm::formatv("{0} {1} bytes at byte {2} of {3}", getVerb(access),
                         count, static_cast<int64_t>(first), size())
        .str();
  bool isWrite = access != AccessKind::Read;
  for (Byte &byte : MutableArrayRef(visits).slice(first, count)) {
    if (access != AccessKind::Write && !isKnown &&
        byte.write.block == kNoThread)
      return llvm::formatv("{0} byte {1}, which no thread wrote",
                           getVerb(access), &byte - visits.data())
          .str();
    bool conflictsWithWrite = byte.write.isUnordered(who, access);
    if (conflictsWithWrite || (isWrite && byte.read.isUnordered(who, access))) {
      const Visit &other = conflictsWithWrite ? byte.write : byte.read;
      return llvm::formatv(
                 "{0} byte {1}, which {2} {3} without a barrier between",
                 getVerb(access), &byte - visits.data(),
                 other.thread == kSeveralThreads
                     ? std::string("several threads")
                     : llvm::formatv("thread {0} of block {1}", other.thread,
                                     other.block)
                           .str(),
                 conflictsWithWrite ? "writes" : "read")
          .str();
    }
    Visit now = {who.block, who.thread, who.epoch,
                 access == AccessKind::Update};
    Visit &last = isWrite ? byte.write : byte.read;
    bool isAnotherBlock = last.block != kNoThread && last.block != who.block;
    bool isAnotherThread = last.block == who.block && last.epoch == who.epoch &&
                           last.thread != who.thread;
    // Only updates and reads remain.
    if (isAnotherBlock)
      now.block = now.thread = kSeveralThreads;
    else if (isAnotherThread)
      now.thread = kSeveralThreads;
    last = now;
  }
  return std::nullopt;
}
