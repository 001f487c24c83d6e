//===- Memory.cpp - Memory of the simulated driver ------------------------===//

#include "State.h"
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iostream>

using namespace simulated;

char *simulated::findMemory(Address address, std::size_t bytes) {
  auto &memory = getState().memory;
  auto next = memory.upper_bound(address);
  if (next == memory.begin())
    return nullptr;
  auto &[start, content] = *std::prev(next);
  if (address - start > content.size() ||
      bytes > content.size() - (address - start))
    return nullptr;
  return content.data() + (address - start);
}

std::span<char> simulated::findAllocation(Address address, Address &begin) {
  auto &memory = getState().memory;
  auto next = memory.upper_bound(address);
  if (next == memory.begin())
    return {};
  auto &[start, content] = *std::prev(next);
  begin = start;
  return address - start < content.size() ? std::span(content)
                                          : std::span<char>();
}

std::size_t simulated::countRest(Address address) {
  Address begin = 0;
  std::span<char> found = findAllocation(address, begin);
  return found.size() - (found.empty() ? 0 : address - begin);
}

static bool isPinned(const void *address, std::size_t bytes) {
  const char *first = static_cast<const char *>(address);
  for (const auto &[start, content] : getState().pinned)
    if (first >= content.data() &&
        first + bytes <= content.data() + content.size())
      return true;
  return false;
}

extern "C" {

int cuMemGetInfo_v2(std::size_t *free, std::size_t *total) {
  *total = getTotal();
  *free = *total - getState().allocated;
  return enter();
}

int cuMemAlloc_v2(Address *address, std::size_t bytes) {
  if (int error = enter())
    return error;
  if (int error = restrict())
    return error;
  if (bytes == 0)
    return status::InvalidValue;
  State &state = getState();
  if (bytes > getTotal() - state.allocated ||
      bytes > getSetting("allocate", bytes))
    return status::OutOfMemory;
  // Uninitialized memory holds NaN, so that reads of it are noticed.
  // Allocations are not adjacent.
  constexpr std::size_t page = 2 << 20;
  *address = state.next;
  state.memory[state.next].assign(bytes, static_cast<char>(0xff));
  state.next += (bytes / page + 2) * page;
  state.allocated += bytes;
  return status::Success;
}

int cuMemFree_v2(Address address) {
  if (int error = enter())
    return error;
  if (int error = restrict())
    return error;
  // Kernels that are queued may still use the memory.
  for (CUstream_st *stream : getState().streams)
    if (!stream->capture)
      if (int failure = drain(stream))
        return failure;
  auto found = getState().memory.find(address);
  if (found == getState().memory.end())
    return status::InvalidValue;
  getState().allocated -= found->second.size();
  getState().memory.erase(found);
  return status::Success;
}

int cuMemHostAlloc(void **address, std::size_t bytes, unsigned) {
  if (int error = enter())
    return error;
  Pinned memory(bytes);
  *address = memory.data();
  getState().pinned.emplace(*address, std::move(memory));
  return status::Success;
}

int cuMemFreeHost(void *address) {
  if (int error = enter())
    return error;
  return getState().pinned.erase(address) ? status::Success
                                          : status::InvalidValue;
}

int cuMemHostGetDevicePointer_v2(Address *address, void *host, unsigned) {
  if (int error = enter())
    return error;
  if (!isPinned(host, 1))
    return status::InvalidValue;
  *address = reinterpret_cast<Address>(host);
  return status::Success;
}

int cuStreamWriteValue32_v2(CUstream_st *stream, Address to, unsigned value,
                            unsigned) {
  if (int error = enter())
    return error;
  if (auto failure = getSetting("write_value", 0))
    return static_cast<int>(failure);
  auto *memory = reinterpret_cast<void *>(to);
  if (!isPinned(memory, sizeof(value)))
    return status::InvalidValue;
  return enqueue(stream, [=] {
    std::memcpy(memory, &value, sizeof(value));
    return int(status::Success);
  });
}

/// Counts the copies to devices and from them.
static struct Copies {
  std::atomic<std::uint64_t> bytes, number;
} uploaded, downloaded;

static void count(Copies &copies, std::size_t bytes) {
  static const bool reports = [] {
    if (!getSetting("report", 0))
      return false;
    std::atexit([] {
      std::cerr << "libcuda.so.1 (simulated): " << uploaded.bytes
                << " bytes to devices, " << downloaded.bytes
                << " from them; copies " << uploaded.number << " and "
                << downloaded.number << "\n";
    });
    return true;
  }();
  if (!reports)
    return;
  copies.bytes += bytes;
  ++copies.number;
}

int cuMemcpyHtoDAsync_v2(Address to, const void *from, std::size_t bytes,
                         CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (!findMemory(to, bytes))
    return status::InvalidValue;
  // As in CUDA, pageable memory is copied now; pinned memory is read when the
  // stream reaches the copy.
  std::shared_ptr<std::vector<char>> staged;
  if (!isPinned(from, bytes))
    staged = std::make_shared<std::vector<char>>(
        static_cast<const char *>(from),
        static_cast<const char *>(from) + bytes);
  return enqueue(stream, [=] {
    count(uploaded, bytes);
    std::memcpy(findMemory(to, bytes), staged ? staged->data() : from, bytes);
    return int(status::Success);
  });
}

int cuMemcpyDtoHAsync_v2(void *to, Address from, std::size_t bytes,
                         CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (!findMemory(from, bytes))
    return status::InvalidValue;
  enqueue(stream, [=] {
    count(downloaded, bytes);
    std::memcpy(to, findMemory(from, bytes), bytes);
    return int(status::Success);
  });
  return isPinned(to, bytes) ? int(status::Success) : drain(stream);
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes,
                         CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (!findMemory(to, bytes) || !findMemory(from, bytes))
    return status::InvalidValue;
  return enqueue(stream, [=] {
    std::memmove(findMemory(to, bytes), findMemory(from, bytes), bytes);
    return int(status::Success);
  });
}

int cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes,
                    CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (!findMemory(to, bytes))
    return status::InvalidValue;
  return enqueue(stream, [=] {
    std::memset(findMemory(to, bytes), value, bytes);
    return int(status::Success);
  });
}

} // extern "C"
