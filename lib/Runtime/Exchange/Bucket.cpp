//===- Bucket.cpp - Transfers of a bucket ---------------------------------===//

#include "Bucket.h"
#include <algorithm>
#include <cstring>

using namespace binade;
using namespace binade::exchange;

void exchange::forEachInOrder(std::int64_t count,
                              const std::function<void(std::int64_t)> &body) {
  for (std::int64_t index = 0; index < count; ++index)
    body(index);
}

Range::Range(const plan::Exchange &record, const Memory &memory)
    : layout(record.elements), elements(record.elements),
      data(reinterpret_cast<float *>(
          memory.addressOf(record.tensors.front()).at({}))) {}

void Range::clearGaps() const {
  for (std::size_t i = 0; i + 1 < elements.size(); ++i)
    std::fill(data + layout.positions[i] + elements[i],
              data + layout.positions[i + 1], 0.0f);
}

Result<void> Bucket::allocate(GroupRank ranks, const std::string &where) {
  if (isAllocated && ranks.size == group.size) {
    group = ranks;
    return {};
  }
  group = ranks;
  Result<Arena> memory = Arena::allocate(getBufferBytes(), where);
  if (!memory)
    return memory.takeError();
  buffers = *std::move(memory);
  isAllocated = true;
  return {};
}

static Error outOfOrder(const std::string &what) {
  return Error{"binade", what, ExitCode::Usage}.withNote(
      "call binade_exchange_transfer for each transfer of a started bucket in "
      "order, then binade_exchange_finish");
}

Result<Transfer> Bucket::begin(std::uint32_t index) {
  if (index >= countTransfers() || index != next)
    return outOfOrder("transfer " + std::to_string(index) +
                      " of a bucket is not the next of its " +
                      std::to_string(countTransfers()));
  Transfer transfer = encode(index, forEachInOrder);
  ++next;
  return transfer;
}

Result<void> Bucket::finish() {
  if (next != countTransfers())
    return outOfOrder("a bucket is finished before its transfers");
  decode(forEachInOrder);
  next = kFinished;
  return {};
}

void Bucket::finishAlone(const ForEach &forEach) {
  for (std::uint32_t index = next; index < countTransfers(); ++index) {
    Transfer transfer = encode(index, forEach);
    if (transfer.send != transfer.receive)
      std::memcpy(transfer.receive, transfer.send,
                  transfer.count * byteSize(transfer.dtype));
  }
  decode(forEach);
  next = kFinished;
}

namespace {
/// Gradients that are summed where they are.
class WideBucket : public Bucket {
public:
  WideBucket(const plan::Exchange &record, const Memory &memory,
             bool isOnDevice)
      : range(record, memory), isOnDevice(isOnDevice) {}

  std::uint32_t countTransfers() const override { return 1; }
  void start(const ForEach &forEach) override {
    Bucket::start(forEach);
    // Nothing reads the gaps on a device.
    if (!isOnDevice)
      range.clearGaps();
  }

protected:
  std::uint64_t getBufferBytes() const override { return 0; }
  Transfer encode(std::uint32_t, const ForEach &) override {
    auto *data = reinterpret_cast<std::byte *>(range.data);
    return {Transfer::Sum, DType::F32, data, data,
            static_cast<std::size_t>(range.layout.size)};
  }
  void decode(const ForEach &) override {}

private:
  Range range;
  bool isOnDevice;
};

/// Magnitudes, whose bits are compared as integers.
class MagnitudeBucket : public Bucket {
public:
  MagnitudeBucket(const plan::Exchange &record, const Memory &memory) {
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      tensors.push_back(
          {memory.addressOf(record.tensors[i]).at({}),
           static_cast<std::size_t>(record.elements[i]) * sizeof(float)});
      bytes += tensors.back().size();
    }
  }

  std::uint32_t countTransfers() const override { return 1; }

protected:
  std::uint64_t getBufferBytes() const override { return bytes; }
  Transfer encode(std::uint32_t, const ForEach &) override {
    std::byte *to = getBuffer(0);
    for (std::span<std::byte> tensor : tensors) {
      std::memcpy(to, tensor.data(), tensor.size());
      to += tensor.size();
    }
    auto *bits = reinterpret_cast<std::uint32_t *>(getBuffer(0));
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i)
      bits[i] &= 0x7fffffff;
    return {Transfer::Max, DType::I32, getBuffer(0), getBuffer(0),
            bytes / sizeof(float)};
  }
  void decode(const ForEach &) override {
    const std::byte *from = getBuffer(0);
    for (std::span<std::byte> tensor : tensors) {
      std::memcpy(tensor.data(), from, tensor.size());
      from += tensor.size();
    }
  }

private:
  std::vector<std::span<std::byte>> tensors;
  std::size_t bytes = 0;
};
} // namespace

std::unique_ptr<Bucket> Bucket::create(const plan::Exchange &record,
                                       const Memory &memory) {
  if (record.operation == plan::Exchange::Max)
    return std::make_unique<MagnitudeBucket>(record, memory);
  if (record.operation == plan::Exchange::Gather)
    return createGatherBucket(record, memory);
  switch (record.format) {
  case plan::Exchange::F32:
    return std::make_unique<WideBucket>(record, memory, false);
  case plan::Exchange::Exact:
    return createExactBucket(record, memory);
  default:
    return createNarrowBucket(record, memory);
  }
}

std::unique_ptr<Bucket> Bucket::createOnDevice(const plan::Exchange &record,
                                               const Memory &memory) {
  return std::make_unique<WideBucket>(record, memory, true);
}
