//===- Arena.h - One aligned block of memory --------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_ARENA_H
#define BINADE_LIB_RUNTIME_EXECUTION_ARENA_H

#include "binade/Container/Error.h"
#include <cstdint>
#include <span>

namespace binade {

/// Zeroed memory from the system, aligned to huge pages when it is large.
class Arena {
public:
  /// Refuses (exit code 7) what the machine or its control group does not
  /// have, before anything is touched.
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

/// Bytes [begin, end) of an arena.
struct ArenaRange {
  std::uint64_t begin, end;

  std::uint64_t size() const { return end - begin; }
};

/// Memory that this process could have in all: the machine's, or the control
/// group's limit where that is less.
std::uint64_t availableMemory();

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_ARENA_H
