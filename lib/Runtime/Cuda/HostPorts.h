//===- HostPorts.h - Host copies of device ports ----------------*- C++ -*-===//
// The host has copies of all ports. Small ports are transferred in every step,
// so the host's copies are valid between steps. Large ports (parameters,
// states, gradients, outputs, constants) are transferred when they are
// accessed. The batch is double-buffered on the host: the device reads one copy
// while the other is filled. Ports that are adjacent in the arena are also
// adjacent on the host, and are transferred together. If some ports are in
// memory of the caller, these have no copies, and all others are transferred
// when they are accessed.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_HOSTPORTS_H
#define BINADE_RUNTIME_CUDA_HOSTPORTS_H

#include "../Execution/Arena.h"
#include "../Execution/BoundPorts.h"
#include "Device.h"
#include "binade/Plan/Plan.h"

namespace binade::cuda {

/// The host copies of a plan's ports.
class HostPorts {
public:
  HostPorts() = default;
  /// `arena` is the address of the arena on the device.
  static Result<HostPorts> create(Device &device, const Plan &plan,
                                  const BoundPorts &bound, Address arena,
                                  const std::string &where);

  /// Returns the host copy of a port, downloaded if needed; empty for a port in
  /// memory of the caller. Unless it is only to be read, a large port is
  /// uploaded again before the next run. An error of the device is available
  /// from `getFailure`.
  std::span<std::byte> access(std::size_t port, bool isReadOnly);
  const std::optional<Error> &getFailure() const { return failure; }
  /// Fills a large port on the device with zeros.
  Result<void> clear(std::size_t port);

  /// Whether the host has changed a large port.
  bool hasUploads() const;

  // The following functions enqueue transfers on the stream.

  /// Uploads the large ports that the host has changed.
  Result<void> uploadLarge();
  Result<void> uploadBatch() const;
  Result<void> uploadSmall() const;
  Result<void> downloadSmall() const;

  /// Swaps the two copies of the batch.
  void exchangeBatches();
  /// Notes that a run has changed large ports on the device.
  void noteRun();

private:
  struct Port {
    std::span<std::byte> bytes;
    Address address = 0;
    bool isSmall = false, isBatch = false, isConstant = false;
    std::span<std::byte> next; ///< The other copy of a batch.
    /// For a large port: which side has a newer value than the other.
    bool isNewOnHost = true, isNewOnDevice = false;
  };
  /// Ports that are adjacent in the arena and transferred together.
  struct Span {
    std::uint64_t begin, end; ///< Byte range in the arena.
    std::byte *host = nullptr, *next = nullptr;
  };
  using Spans = std::vector<Span>;

  static Spans join(const Plan &plan, const std::vector<std::size_t> &ports);
  void place(Spans &spans, const std::vector<std::size_t> &members,
             const Plan &plan, std::byte *begin, bool isDouble);

  Device *device = nullptr;
  Address arena = 0;
  /// Whether a graph of the caller may change ports, which calls no `noteRun`.
  bool changesUnseen = false;
  PinnedMemory pinned;
  Arena host;
  std::vector<Port> ports;
  Spans small, batch;
  std::optional<Error> failure; ///< The first error of a download.
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_HOSTPORTS_H
