//===- Arena.cpp - Memory of a plan ---------------------------------------===//

#include "Arena.h"
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace binade;

static constexpr std::uint64_t hugePage = std::uint64_t(2) << 20;

std::uint64_t binade::availableMemory() {
  std::uint64_t bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::uint64_t limit; // The word "max" is not read as a number.
  if (file >> limit && limit < bytes)
    bytes = limit;
  return bytes;
}

Result<Arena> Arena::allocate(std::uint64_t bytes, std::string_view where) {
  std::uint64_t available = availableMemory();
  if (bytes > available)
    return Error{std::string(where),
                 "needs " + std::to_string(bytes >> 20) +
                     " MiB of memory, this machine allows " +
                     std::to_string(available >> 20) + " MiB",
                 ExitCode::Resources};
  Arena arena;
  arena.bytes = bytes;
  if (bytes == 0)
    return arena;
  // Includes room to align the start and the end to huge pages.
  bool large = bytes >= hugePage;
  arena.mapped = large ? (bytes + 2 * hugePage) / hugePage * hugePage : bytes;
  void *mapping = ::mmap(nullptr, arena.mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return systemError(
        std::string(where),
        "cannot allocate " + std::to_string(bytes >> 20) + " MiB", errno);
  arena.mapping = mapping;
  auto address = reinterpret_cast<std::uintptr_t>(mapping);
  if (large) {
    address = (address + hugePage - 1) / hugePage * hugePage;
    ::madvise(reinterpret_cast<void *>(address),
              (bytes + hugePage - 1) / hugePage * hugePage, MADV_HUGEPAGE);
  }
  arena.start = reinterpret_cast<std::byte *>(address);
  return arena;
}

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(start, other.start);
  std::swap(bytes, other.bytes);
  std::swap(mapping, other.mapping);
  std::swap(mapped, other.mapped);
  return *this;
}

Arena::~Arena() {
  if (mapping)
    ::munmap(mapping, mapped);
}
