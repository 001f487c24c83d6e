//===- BatchUpload.h - Batches on their way to a device ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_BATCHUPLOAD_H
#define BINADE_RUNTIME_CUDA_BATCHUPLOAD_H

#include "Device.h"

namespace binade::cuda {

/// Two pinned buffers in turn: the host writes a batch into one while the
/// device works on the batch of the other.
class BatchUpload {
public:
  /// `bytes` are those of a batch.
  static Result<BatchUpload> create(Device &device, std::uint64_t bytes);

  /// Where the next batch goes. Waits until the device has read the batch that
  /// was there.
  Result<std::span<std::byte>> begin();
  /// Puts the upload of a part of this batch on the stream.
  Result<void> upload(Address to, std::span<const std::byte> part);
  /// After the last part.
  Result<void> end();

private:
  struct Buffer {
    PinnedMemory memory;
    Event wasRead;
  };
  BatchUpload(Device &device, std::uint64_t bytes)
      : device(&device), bytes(bytes) {}

  Device *device;
  std::uint64_t bytes;
  std::array<Buffer, 2> buffers;
  std::size_t current = 0;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_BATCHUPLOAD_H
