//===- BatchUpload.cpp - Batches on their way to a device -----------------===//

#include "BatchUpload.h"

using namespace binade;
using namespace binade::cuda;

Result<BatchUpload> BatchUpload::create(Device &device, std::uint64_t bytes) {
  BatchUpload upload(device, bytes);
  for (Buffer &buffer : upload.buffers) {
    Result<PinnedMemory> memory = device.allocatePinned(bytes);
    if (!memory)
      return memory.takeError();
    // Nothing is on the stream that reads it.
    Result<Event> event = device.record();
    if (!event)
      return event.takeError();
    buffer = {*std::move(memory), *std::move(event)};
  }
  return upload;
}

Result<std::span<std::byte>> BatchUpload::begin() {
  Buffer &buffer = buffers[current];
  if (auto done = device->wait(buffer.wasRead); !done)
    return done.takeError();
  return std::span(static_cast<std::byte *>(buffer.memory.get()), bytes);
}

Result<void> BatchUpload::upload(Address to, std::span<const std::byte> part) {
  return device->upload(to, part.data(), part.size());
}

Result<void> BatchUpload::end() {
  const Event &event = buffers[current].wasRead;
  current = 1 - current;
  return device->record(event);
}
