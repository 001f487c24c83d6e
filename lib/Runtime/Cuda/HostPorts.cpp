//===- HostPorts.cpp - Host copies of device ports ------------------------===//

#include "HostPorts.h"
#include <algorithm>

using namespace binade;
using namespace binade::cuda;
using plan::Role;

static constexpr std::uint64_t kAlignment = 64;

/// Whether the host reads or writes the port in every step.
static bool isSmall(const plan::Port &port) {
  if (port.frozen)
    return false;
  switch (port.role) {
  case Role::Parameter:
  case Role::Buffer:
  case Role::State:
  case Role::Accumulator:
  case Role::Constant:
  case Role::Output:
  case Role::Gradient:
    return false;
  default:
    return true;
  }
}

static const plan::Buffer &getBuffer(const Plan &plan, std::size_t port) {
  return plan.buffers[plan.ports[port].buffer];
}

/// Returns the size of a host copy of bytes [begin, end) of the arena with the
/// same alignment.
static std::uint64_t getHostBytes(std::uint64_t begin, std::uint64_t end) {
  return (begin % kAlignment + end - begin + kAlignment - 1) / kAlignment *
         kAlignment;
}

/// Whether bytes [begin, end) of the arena, after a port at `port`, may be
/// copied together with it: they are few, and belong to no buffer, or to a
/// workspace that starts with the port and is not live between runs.
static bool mayBeCopied(const Plan &plan, std::uint64_t port,
                        std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kFew = 16 << 10;
  return end - begin <= kFew &&
         std::none_of(plan.buffers.begin(), plan.buffers.end(),
                      [&](const plan::Buffer &buffer) {
                        return buffer.offset != port && buffer.offset < end &&
                               begin < buffer.offset + buffer.bytes;
                      });
}

/// Joins `ports`, sorted by their offsets, into spans of the arena.
HostPorts::Spans HostPorts::join(const Plan &plan,
                                 const std::vector<std::size_t> &ports) {
  Spans spans;
  std::uint64_t last = 0; // Offset of the previous port.
  for (std::size_t port : ports) {
    const plan::Buffer &buffer = getBuffer(plan, port);
    std::uint64_t end = buffer.offset + buffer.bytes;
    if (buffer.bytes == 0)
      continue;
    bool isNext = !spans.empty() &&
                  (buffer.offset <= spans.back().end ||
                   mayBeCopied(plan, last, spans.back().end, buffer.offset));
    last = buffer.offset;
    if (isNext)
      spans.back().end = std::max(spans.back().end, end);
    else
      spans.push_back({buffer.offset, end});
  }
  return spans;
}

/// Assigns host memory from `begin` on to `spans` and to their ports `members`.
void HostPorts::place(Spans &spans, const std::vector<std::size_t> &members,
                      const Plan &plan, std::byte *begin, bool isDouble) {
  for (Span &span : spans)
    for (std::byte **copy : {&span.host, &span.next})
      if (copy == &span.host || isDouble) {
        *copy = begin + span.begin % kAlignment;
        begin += getHostBytes(span.begin, span.end);
      }
  for (std::size_t port : members) {
    const plan::Buffer &buffer = getBuffer(plan, port);
    for (const Span &span : spans)
      if (span.begin <= buffer.offset && buffer.offset < span.end) {
        std::uint64_t distance = buffer.offset - span.begin;
        ports[port].bytes = {span.host + distance, buffer.bytes};
        if (isDouble)
          ports[port].next = {span.next + distance, buffer.bytes};
      }
  }
}

Result<HostPorts> HostPorts::create(Device &device, const Plan &plan,
                                    const BoundPorts &bound, Address arena,
                                    const std::string &where) {
  HostPorts made;
  made.device = &device;
  made.changesUnseen = !bound.empty();
  made.arena = arena;
  made.ports.resize(plan.ports.size());
  std::vector<std::size_t> byPlace(plan.ports.size());
  for (std::size_t i = 0; i < byPlace.size(); ++i)
    byPlace[i] = i;
  std::stable_sort(
      byPlace.begin(), byPlace.end(), [&](std::size_t left, std::size_t right) {
        return getBuffer(plan, left).offset < getBuffer(plan, right).offset;
      });
  std::vector<std::size_t> small, batch, large;
  for (std::size_t i : byPlace) {
    const plan::Port &port = plan.ports[i];
    Port &own = made.ports[i];
    if (bound.contains(port.buffer)) {
      own.isNewOnHost = false;
      own.isConstant = true;
      continue;
    }
    own.address = arena + getBuffer(plan, i).offset;
    own.isSmall = isSmall(port) && bound.empty();
    own.isBatch = port.role == Role::Batch && bound.empty();
    own.isConstant = port.role == Role::Constant || port.role == Role::Hyper ||
                     port.role == Role::Batch || port.frozen;
    (!own.isSmall ? large : own.isBatch ? batch : small).push_back(i);
  }
  made.small = join(plan, small);
  made.batch = join(plan, batch);
  std::uint64_t smallBytes = 0, batchBytes = 0, largeBytes = 0;
  for (const Span &span : made.small)
    smallBytes += getHostBytes(span.begin, span.end);
  for (const Span &span : made.batch)
    batchBytes += 2 * getHostBytes(span.begin, span.end);
  for (std::size_t i : large)
    largeBytes += getHostBytes(0, getBuffer(plan, i).bytes);
  Result<Arena> memory = Arena::allocate(largeBytes, where);
  if (!memory)
    return memory.takeError();
  made.host = *std::move(memory);
  std::uint64_t pinnedBytes = smallBytes + batchBytes;
  Result<PinnedMemory> pinned = device.allocatePinned(pinnedBytes);
  if (!pinned)
    return pinned.takeError();
  made.pinned = *std::move(pinned);
  auto *begin = static_cast<std::byte *>(made.pinned.get());
  std::fill_n(begin, pinnedBytes, std::byte(0));
  made.place(made.small, small, plan, begin, /*isDouble=*/false);
  made.place(made.batch, batch, plan, begin + smallBytes, /*isDouble=*/true);
  std::byte *next = made.host.data();
  for (std::size_t i : large) {
    made.ports[i].bytes = {next, getBuffer(plan, i).bytes};
    next += getHostBytes(0, getBuffer(plan, i).bytes);
  }
  return made;
}

std::span<std::byte> HostPorts::access(std::size_t index, bool isReadOnly) {
  Port &port = ports[index];
  if (port.isSmall || port.bytes.empty())
    return port.bytes;
  bool mayBeNew = changesUnseen && !port.isConstant && !port.isNewOnHost;
  if (port.isNewOnDevice || mayBeNew) {
    Result<void> done = device->bind();
    if (done)
      done = device->read(port.bytes.data(), port.address, port.bytes.size());
    if (!done && !failure)
      failure = done.takeError();
    port.isNewOnDevice = false;
  }
  port.isNewOnHost |= !isReadOnly;
  return port.bytes;
}

Result<void> HostPorts::clear(std::size_t index) {
  Port &port = ports[index];
  port.isNewOnHost = false;
  port.isNewOnDevice = true;
  return device->fill(port.address, std::byte(0), port.bytes.size());
}

bool HostPorts::hasUploads() const {
  return std::ranges::any_of(ports, [](const Port &port) {
    return !port.isSmall && port.isNewOnHost;
  });
}

Result<void> HostPorts::uploadLarge() {
  for (Port &port : ports) {
    if (port.isSmall || !port.isNewOnHost)
      continue;
    if (auto done =
            device->upload(port.address, port.bytes.data(), port.bytes.size());
        !done)
      return done;
    port.isNewOnHost = false;
  }
  return {};
}

Result<void> HostPorts::uploadBatch() const {
  for (const Span &span : batch)
    if (auto done = device->upload(arena + span.begin, span.host,
                                   span.end - span.begin);
        !done)
      return done;
  return {};
}

Result<void> HostPorts::uploadSmall() const {
  for (const Span &span : small)
    if (auto done = device->upload(arena + span.begin, span.host,
                                   span.end - span.begin);
        !done)
      return done;
  return {};
}

Result<void> HostPorts::downloadSmall() const {
  for (const Span &span : small)
    if (auto done = device->download(span.host, arena + span.begin,
                                     span.end - span.begin);
        !done)
      return done;
  return {};
}

void HostPorts::exchangeBatches() {
  for (Port &port : ports)
    if (port.isBatch)
      std::swap(port.bytes, port.next);
  for (Span &span : batch)
    std::swap(span.host, span.next);
}

void HostPorts::noteRun() {
  for (Port &port : ports)
    if (!port.isSmall && !port.isConstant)
      port.isNewOnDevice = true;
}
