//===- Machine.h - threads, their registers and memory ----------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_MACHINE_H
#define BINADE_LIB_SIMULATOR_MACHINE_H

#include "Memory.h"
#include "binade/Simulator/Simulator.h"

namespace mlir::binade {

/// Lanes of a warp.
inline constexpr int32_t kWarp = 32;

/// A memref in a register: which memory, and from which byte on.
struct Place {
  /// Memory of the thread itself, not one that several threads see.
  bool isPrivate;
  uint32_t memory;
  uint64_t byte;

  uint64_t pack() const;
  static Place unpack(uint64_t bits);
};

/// Memory of a thread.
struct OwnBytes {
  uint64_t address;
  std::vector<char> bytes;
};

struct Thread {
  enum class State { Running, AtBarrier, AtExchange, Done };

  int32_t number = 0; ///< In its block.
  std::array<int64_t, 3> id = {};
  State state = State::Running;
  size_t next = 0; ///< Instruction.
  std::vector<uint64_t> registers;
  std::vector<OwnBytes> memories;
};

/// What all threads of a launch share.
class Machine {
public:
  explicit Machine(const SimulatedLaunch &launch) : launch(launch) {}

  const SimulatedLaunch &launch;
  std::vector<SharedBytes> memories;
  int32_t block = 0; ///< Number of the one that runs.
  std::array<int64_t, 3> blockId = {};
  uint32_t epoch = 0; ///< Barriers that it passed.

  /// Whether a device has `place` at a multiple of `alignment`; an error of
  /// `op` if not.
  bool isAligned(const Thread &thread, Operation *op, Place place,
                 uint64_t alignment);
  /// The bytes of `count` at `place`, for `op` of `thread`; null after an
  /// error.
  char *access(Thread &thread, Operation *op, Place place, size_t count,
               AccessKind access);
  /// Stops the launch.
  void fail(const Thread &thread, Operation *op, const Twine &what);
  bool hasFailed() const { return failed; }

private:
  bool failed = false;
};

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_MACHINE_H
