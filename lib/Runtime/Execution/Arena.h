//===- Arena.h - Memory of a plan -------------------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_ARENA_H
#define BINADE_LIB_RUNTIME_EXECUTION_ARENA_H

#include "binade/Container/Error.h"
#include "binade/Plan/ArenaCompaction.h"
#include <cstdint>
#include <span>

namespace binade {

/// A block of zeroed memory, aligned to huge pages if it is large.
class Arena {
public:
  /// Reserves memory. Fails with exit code 7 if the machine or its control
  /// group has less memory in total.
  static Result<Arena> allocate(std::uint64_t bytes, std::string_view where);

  Arena() = default;
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  std::byte *data() const { return start; }
  std::uint64_t size() const { return bytes; }

private:
  std::byte *start = nullptr;
  std::uint64_t bytes = 0;
  void *mapping = nullptr;
  std::uint64_t mapped = 0;
};

/// Returns the bytes of physical memory, or the limit of the control group if
/// that is less.
std::uint64_t availableMemory();

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_ARENA_H
