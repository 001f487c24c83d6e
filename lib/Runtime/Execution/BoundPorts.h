//===- BoundPorts.h - Ports in memory of the caller -------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_BOUNDPORTS_H
#define BINADE_LIB_RUNTIME_EXECUTION_BOUNDPORTS_H

#include "binade/Plan/Plan.h"
#include <span>
#include <vector>

namespace binade {

/// The ports of a plan whose memory belongs to the caller of the program.
class BoundPorts {
public:
  /// Where a buffer of a bound port is.
  struct Place {
    /// Where the address of the port is stored; null for a buffer in the arena.
    std::byte *const *port = nullptr;
    std::uint64_t offset = 0; ///< Bytes from there to the buffer.
  };

  BoundPorts() = default;
  BoundPorts(BoundPorts &&) = default; // Keeps the places valid.
  BoundPorts &operator=(BoundPorts &&) = default;

  /// Removes the ports of `roles`, and the buffers in their memory, from the
  /// arena of `plan`. The remaining buffers move closer together; their
  /// alignment up to 256 bytes is preserved. The offsets of removed buffers are
  /// meaningless then.
  static BoundPorts create(Plan &plan, std::span<const plan::Role> roles);

  bool empty() const { return addresses.empty(); }
  bool contains(std::uint32_t buffer) const {
    return find(buffer).port != nullptr;
  }
  Place find(std::uint32_t buffer) const {
    return empty() ? Place() : places[buffer];
  }
  /// Sets the address of a port. `buffer` is the buffer of a bound port.
  void bind(std::uint32_t buffer, std::byte *address);
  /// Returns the address of a buffer; null if its port was not bound yet.
  std::byte *get(std::uint32_t buffer) const;
  /// Returns the first buffer that has elements and whose port was not bound
  /// yet, if any.
  std::optional<std::uint32_t> findUnbound(const Plan &plan) const;

private:
  std::vector<std::byte *> addresses;
  std::vector<Place> places; ///< By buffer.
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_BOUNDPORTS_H
