//===- HostPorts.h - Ports of a device's program on the host ----*- C++ -*-===//
// Of ports the host has copies: those that are small move with every step, so
// that the host's are always what counts between steps; large ones (parameters,
// states, gradients, outputs, constants) move when someone asks for them. The
// batch has two copies on the host: one is read by the device while the other
// is filled. Ports that are neighbours in the arena are so on the host, and
// move as one.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_HOSTPORTS_H
#define BINADE_RUNTIME_CUDA_HOSTPORTS_H

#include "../Execution/Arena.h"
#include "Device.h"
#include "binade/Plan/Plan.h"

namespace binade::cuda {

class HostPorts {
public:
  HostPorts() = default;
  /// `arena` is the device's.
  static Result<HostPorts> create(Device &device, const Plan &plan,
                                  Address arena, const std::string &where);

  /// The host's copy of a port, which its user may write to, unless it is only
  /// to be read: what is large goes back to the device otherwise. An error of
  /// the device is in `getFailure` afterwards.
  std::span<std::byte> access(std::size_t port, bool isToBeRead);
  const std::optional<Error> &getFailure() const { return failure; }
  /// Zeros instead of what a large port holds.
  Result<void> clear(std::size_t port);

  // What follows is put on the stream.

  /// What the host wrote last.
  Result<void> uploadLarge();
  Result<void> uploadBatch() const;
  Result<void> uploadSmall() const;
  Result<void> downloadSmall() const;

  /// The batch's copies change places.
  void exchangeBatches();
  /// Large ports have been written on the device.
  void noteRun();

private:
  struct Port {
    std::span<std::byte> bytes;
    Address address = 0;
    bool isSmall = false, isBatch = false, isConstant = false;
    std::span<std::byte> next; ///< Of a batch: the other copy.
    /// Of a large one: which side wrote it last, if the other does not have it.
    bool isNewOnHost = true, isNewOnDevice = false;
  };
  /// Neighbours in the arena, which move together.
  struct Span {
    std::uint64_t begin, end; ///< In the arena.
    std::byte *host = nullptr, *next = nullptr;
  };
  using Spans = std::vector<Span>;

  static Spans join(const Plan &plan, const std::vector<std::size_t> &ports);
  void place(Spans &spans, const std::vector<std::size_t> &members,
             const Plan &plan, std::byte *begin, bool isDouble);

  Device *device = nullptr;
  Address arena = 0;
  PinnedMemory pinned;
  Arena host;
  std::vector<Port> ports;
  Spans small, batch;
  std::optional<Error> failure; ///< Of a download.
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_HOSTPORTS_H
