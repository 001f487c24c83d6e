//===- Program.h - a kernel as a list of instructions -----------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_PROGRAM_H
#define BINADE_LIB_SIMULATOR_PROGRAM_H

#include "Warp.h"
#include <functional>

namespace mlir::binade {

/// Does one op for one thread, whose `next` is the instruction behind already.
using Action = std::function<void(Machine &, Thread &)>;

struct Instruction {
  Operation *op;
  Action action;
};

/// Memory that is there whenever a kernel runs, and the register that names it.
struct KernelMemory {
  uint32_t place;
  size_t bytes;
  uint64_t alignment;      ///< Where it lies, for it may be no better.
  std::vector<char> start; ///< What a constant holds; empty for others.
};

/// A thread can stop at any instruction and go on later, for loops are jumps.
struct SimulatedProgram {
  std::vector<Instruction> instructions;
  size_t registers = 0;
  std::vector<uint32_t> arguments; ///< Their registers.
  std::vector<KernelMemory> workgroup, privates, constants;
  DenseMap<size_t, Exchange> exchanges; ///< By instruction.

  /// Emits an error for an op that is not simulated.
  static FailureOr<SimulatedProgram> of(gpu::GPUFuncOp kernel);
};

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_PROGRAM_H
