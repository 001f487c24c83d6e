//===- Exchange.h - Exchange of gradients in a group ------------*- C++ -*-===//
// The runtime says when a bucket of gradients is ready, and encodes and decodes
// it; a callback of the caller, the transport, moves bytes between ranks.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_EXCHANGE_H
#define BINADE_RUNTIME_EXCHANGE_H

#include "binade/Container/DType.h"
#include "binade/Container/Error.h"
#include <functional>

namespace binade {

/// What all ranks do with their buffers at the same time.
struct Transfer {
  enum Operation : std::uint8_t {
    Sum,      ///< All-reduce in place.
    Max,      ///< All-reduce in place.
    AllToAll, ///< Part r of `send` goes to rank r.
    /// `receive` becomes what rank 0, 1, ... send. `send` may be its own place
    /// there.
    AllGather
  };
  Operation operation = Sum;
  DType dtype = DType::F32;
  std::byte *send = nullptr, *receive = nullptr;
  std::size_t count = 0; ///< Elements of `send`.
};
inline constexpr std::size_t kNumTransferOperations = 4;

/// The rank of a process in its group.
struct GroupRank {
  std::uint32_t rank = 0, size = 1;

  /// Returns the first batch of the next rank (`after`) or of this one, of
  /// `batches` that all ranks divide among them.
  std::int64_t findFirst(std::int64_t batches, bool after = false) const {
    return (rank + after) * batches / size;
  }
};

/// The exchange of a step, for a transport. Buckets are exchanged one after the
/// other or at once, each by at most one thread at a time: call `begin` for
/// each of its transfers in order, perform it, and call `finish`.
class StepExchange {
public:
  virtual ~StepExchange() = default;
  virtual GroupRank getRank() const = 0;
  virtual std::uint32_t countBuckets() const = 0;
  virtual std::uint32_t countTransfers(std::uint32_t bucket) const = 0;
  /// Encodes what the transfer sends, once the transfer before is complete.
  virtual Result<Transfer> begin(std::uint32_t bucket, std::uint32_t index) = 0;
  /// Decodes what the last transfer received into the gradients, or into the
  /// parameters that other ranks have updated.
  virtual Result<void> finish(std::uint32_t bucket) = 0;
  /// Sets the message of an error that the transport is about to return. May be
  /// called by any thread.
  virtual void fail(std::string message) = 0;
};

enum class ExchangeEvent : std::uint8_t { Start, Join };

/// The transport. Called when `bucket` can be exchanged, which should return at
/// once, and for the end of exchanges, to wait for those that have started: of
/// gradients and, in a program with a part of the states, of parameters.
/// `stream` is the
/// CUDA stream to which the step is enqueued; null on a CPU. Returns 0, or a
/// status that ends the step. Must not throw.
using Transport = std::function<int(StepExchange &exchange, ExchangeEvent event,
                                    std::uint32_t bucket, void *stream)>;

} // namespace binade

#endif // BINADE_RUNTIME_EXCHANGE_H
