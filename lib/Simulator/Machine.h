//===- Machine.h - Threads, their registers and memory ----------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_MACHINE_H
#define BINADE_LIB_SIMULATOR_MACHINE_H

#include "Memory.h"
#include "binade/Simulator/Simulator.h"
#include <map>

namespace mlir::binade {

/// Threads of a warp.
inline constexpr int32_t kWarp = 32;

/// A memref in a register: a memory, and the offset in it, in bytes.
struct Place {
  /// Whether it is memory of one thread.
  bool isPrivate;
  uint32_t memory;
  uint64_t byte;

  uint64_t pack() const;
  static Place unpack(uint64_t bits);
};

/// Private memory of a thread.
struct OwnBytes {
  uint64_t address;
  std::vector<char> bytes;
};

/// A copy to shared memory that has been started. A device may write the bytes
/// at any time until the thread waits for the copy's group.
struct PendingCopy {
  Place to;
  std::vector<char> bytes;
  bool isGrouped = false;
};

/// A simulated thread.
struct Thread {
  enum class State { Running, AtBarrier, AtExchange, Done };

  int32_t number = 0; ///< Number in its block.
  std::array<int64_t, 3> id = {};
  State state = State::Running;
  size_t next = 0; ///< Index of the next instruction.
  std::vector<uint64_t> registers;
  std::vector<OwnBytes> memories;
  std::vector<PendingCopy> copies;
};

/// The state that all threads of a launch share.
class Machine {
public:
  explicit Machine(const SimulatedLaunch &launch) : launch(launch) {}

  const SimulatedLaunch &launch;
  std::vector<SharedBytes> memories;
  /// The memory of the launch's argument `spansDevice`, if it has `findOther`.
  std::optional<uint32_t> spansDevice;
  int32_t block = 0; ///< Number of the current block.
  std::array<int64_t, 3> blockId = {};
  uint32_t epoch = 0; ///< Barriers that the block has passed.

  /// Whether `place` is a multiple of `alignment` on a device; otherwise
  /// reports an error at `op`.
  bool isAligned(const Thread &thread, Operation *op, Place place,
                 uint64_t alignment);
  /// Returns `count` bytes at `place`, for `op` of `thread`; null after an
  /// error.
  char *access(Thread &thread, Operation *op, Place place, size_t count,
               AccessKind access);
  /// Reports an error and stops the launch.
  void fail(const Thread &thread, Operation *op, const Twine &what);
  bool hasFailed() const { return failed; }

private:
  /// Returns the same byte in the memory that contains it, if it is beyond the
  /// argument that spans the device.
  Place resolve(Place place);

  /// Memories that `resolve` found, by the distance of their first byte.
  std::map<int64_t, uint32_t> others;
  bool failed = false;
};

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_MACHINE_H
