//===- Simulator.h - GPU kernels without a GPU ------------------*- C++ -*-===//
//
// Runs a kernel of the gpu dialect as a device would, thread by thread, in the
// IR that goes on to PTX. What a device leaves undefined is an error: accesses
// beyond a buffer or at an address that their width does not divide, reads of
// shared memory that nobody wrote, two threads at one byte between barriers,
// barriers and shuffles that not all threads reach.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_SIMULATOR_SIMULATOR_H
#define BINADE_SIMULATOR_SIMULATOR_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include <array>
#include <variant>

namespace mlir::binade {

/// What a kernel is started with. An argument is memory, of the bytes of a
/// memref, or the bits of a number. Memory has the alignment that it has here.
struct SimulatedLaunch {
  std::array<int64_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  std::vector<std::variant<MutableArrayRef<char>, uint64_t>> arguments;
  /// 0: blocks, and threads from barrier to barrier, run by their numbers;
  /// otherwise in an order that is drawn from this seed. No result may depend
  /// on it.
  uint64_t order = 0;
};

/// Loads the dialects of which kernels consist, for texts of them to be parsed.
void loadKernelDialects(MLIRContext &context);

/// Runs `kernel` to its end. Memrefs have one axis and a static shape. An error
/// says at which op, by which thread of which block, and what happened.
LogicalResult simulate(gpu::GPUFuncOp kernel, const SimulatedLaunch &launch);

} // namespace mlir::binade

#endif // BINADE_SIMULATOR_SIMULATOR_H
