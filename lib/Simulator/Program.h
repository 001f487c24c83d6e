//===- Program.h - Kernels as lists of instructions -------------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_PROGRAM_H
#define BINADE_LIB_SIMULATOR_PROGRAM_H

#include "Warp.h"
#include <functional>

namespace mlir::binade {

/// Executes an op for a thread, whose `next` has already been incremented.
using Action = std::function<void(Machine &, Thread &)>;

/// An action, and the op of which it is a part.
struct Instruction {
  Operation *op;
  Action action;
};

/// Memory that exists during the whole kernel, and the register of its memref.
struct KernelMemory {
  uint32_t place;
  size_t bytes;
  uint64_t alignment;      ///< It has no larger alignment than this.
  std::vector<char> start; ///< Value of a constant; otherwise empty.
};

/// Loops are jumps, so that a thread can stop and resume at any instruction.
struct SimulatedProgram {
  std::vector<Instruction> instructions;
  size_t registers = 0;
  std::vector<uint32_t> arguments; ///< Registers of the arguments.
  std::vector<KernelMemory> workgroup, privates, constants;
  DenseMap<size_t, Exchange> exchanges; ///< By index of the instruction.

  /// Emits an error for an op that is not supported.
  static FailureOr<SimulatedProgram> of(gpu::GPUFuncOp kernel);
};

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_PROGRAM_H
