//===- Memory.cpp - what simulated threads read and write -----------------===//

#include "Memory.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;

SharedBytes::SharedBytes(MutableArrayRef<char> bytes)
    : bytes(bytes), visits(bytes.size()), isKnown(true) {}

SharedBytes::SharedBytes(size_t size)
    : own(size), bytes(own), visits(size), isKnown(false) {}

void SharedBytes::forget() { visits.assign(bytes.size(), Byte()); }

bool SharedBytes::Visit::isUnordered(const Accessor &who) const {
  if (block == kNobody)
    return false;
  if (block != who.block)
    return true; // Blocks run in any order.
  return epoch == who.epoch && thread != who.thread;
}

std::optional<std::string> SharedBytes::check(const Accessor &who,
                                              uint64_t first, size_t count,
                                              bool isWrite) {
  if (first > size() || count > size() - first)
    return llvm::formatv("{0} {1} bytes at byte {2} of {3}",
                         isWrite ? "writes" : "reads", count,
                         static_cast<int64_t>(first), size())
        .str();
  for (Byte &byte : MutableArrayRef(visits).slice(first, count)) {
    if (!isWrite && !isKnown && byte.write.block == kNobody)
      return llvm::formatv("reads byte {0}, which nobody wrote",
                           &byte - visits.data())
          .str();
    bool isRace =
        byte.write.isUnordered(who) || (isWrite && byte.read.isUnordered(who));
    if (isRace) {
      const Visit &other = byte.write.isUnordered(who) ? byte.write : byte.read;
      return llvm::formatv(
                 "{0} byte {1}, which {2} {3} without a barrier between",
                 isWrite ? "writes" : "reads", &byte - visits.data(),
                 other.thread == kSeveral
                     ? std::string("several threads")
                     : llvm::formatv("thread {0} of block {1}", other.thread,
                                     other.block)
                           .str(),
                 &other == &byte.write ? "writes" : "read")
          .str();
    }
    Visit now = {who.block, who.thread, who.epoch};
    if (isWrite) {
      byte.write = now;
      continue;
    }
    Visit &read = byte.read;
    bool isAnotherBlock = read.block != kNobody && read.block != who.block;
    bool isAnotherThread = read.block == who.block && read.epoch == who.epoch &&
                           read.thread != who.thread;
    if (isAnotherBlock)
      now.block = now.thread = kSeveral;
    else if (isAnotherThread)
      now.thread = kSeveral;
    read = now;
  }
  return std::nullopt;
}
