//===- Bucket.h - Transfers of a bucket -------------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXCHANGE_BUCKET_H
#define BINADE_LIB_RUNTIME_EXCHANGE_BUCKET_H

#include "../Execution/Arena.h"
#include "../Execution/Operation.h"
#include "Kernels.h"
#include "binade/Runtime/Exchange.h"

namespace binade::exchange {

/// Calls `body` for each index in [0, count), possibly in parallel.
using ForEach = std::function<void(
    std::int64_t count, const std::function<void(std::int64_t)> &body)>;
void forEachInOrder(std::int64_t count,
                    const std::function<void(std::int64_t)> &body);

/// A bucket of gradients, magnitudes or parameters in the memory of the step.
/// Each format is a list of transfers, between which the bucket encodes and
/// decodes.
class Bucket {
public:
  /// Creates the bucket that `record`, a start, describes.
  static std::unique_ptr<Bucket> create(const plan::Exchange &record,
                                        const Memory &memory);
  /// Creates a bucket of F32 sums in memory of a device, which is not accessed.
  static std::unique_ptr<Bucket> createOnDevice(const plan::Exchange &record,
                                                const Memory &memory);
  virtual ~Bucket() = default;

  /// Allocates the buffers for a group, unless it has them.
  Result<void> allocate(GroupRank group, const std::string &where);
  virtual std::uint32_t countTransfers() const = 0;
  /// Whether it gathers parameters, after their update.
  virtual bool isGather() const { return false; }
  /// Prepares the bucket for its transfers in a step; its tensors are complete.
  virtual void start(const ForEach &) { next = 0; }
  Result<Transfer> begin(std::uint32_t index);
  Result<void> finish();
  bool isFinished() const { return next == kFinished; }
  /// Performs the transfers of a group of one, on `forEach`.
  void finishAlone(const ForEach &forEach);

protected:
  virtual std::uint64_t getBufferBytes() const = 0;
  virtual Transfer encode(std::uint32_t index, const ForEach &forEach) = 0;
  virtual void decode(const ForEach &forEach) = 0;

  /// Returns the next multiple of 64, to which buffers are aligned.
  static std::uint64_t align(std::uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
  }
  std::byte *getBuffer(std::uint64_t offset) const {
    return buffers.data() + offset;
  }

  GroupRank group;

private:
  static constexpr std::uint32_t kFinished = UINT32_MAX;
  Arena buffers;
  bool isAllocated = false;
  std::uint32_t next = 0; ///< The next transfer.
};

/// The gradients of a bucket as one range of positions, with zeros between
/// tensors.
struct Range {
  explicit Range(const plan::Exchange &record, const Memory &memory);
  void clearGaps() const;

  ExchangeLayout layout;
  std::vector<std::int64_t> elements;
  float *data;
};

std::unique_ptr<Bucket> createExactBucket(const plan::Exchange &record,
                                          const Memory &memory);
std::unique_ptr<Bucket> createNarrowBucket(const plan::Exchange &record,
                                           const Memory &memory);
std::unique_ptr<Bucket> createGatherBucket(const plan::Exchange &record,
                                           const Memory &memory);

/// Adds tensors to the fixed-point sums of a record.
void addToSums(const plan::Exchange &record, const Memory &memory,
               const ForEach &forEach);

} // namespace binade::exchange

#endif // BINADE_LIB_RUNTIME_EXCHANGE_BUCKET_H
