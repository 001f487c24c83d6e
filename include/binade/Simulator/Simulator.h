//===- Simulator.h - Simulation of GPU kernels ------------------*- C++ -*-===//
//
// Runs a kernel of the gpu dialect as a GPU does, thread by thread, from the IR
// that is lowered to PTX. Everything that is undefined on a device is an error:
// out-of-bounds and misaligned accesses, reads of shared memory that no thread
// has written, data races between barriers, and barriers or shuffles that not
// all threads reach.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_SIMULATOR_SIMULATOR_H
#define BINADE_SIMULATOR_SIMULATOR_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include <array>
#include <functional>
#include <optional>
#include <variant>

namespace mlir::binade {

/// How a kernel is launched. An argument is the bytes of a memref, or the bits
/// of a scalar. Memory has the alignment that it has in this process.
struct SimulatedLaunch {
  std::array<int64_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  std::vector<std::variant<MutableArrayRef<char>, uint64_t>> arguments;
  /// Memory beyond an argument.
  struct Memory {
    MutableArrayRef<char> bytes;
    int64_t begin; ///< Distance of its first byte from that of the argument.
  };
  /// The argument from which a kernel reaches all memory of the device. Only
  /// used if `findOther` is set, which returns the memory that has the byte at
  /// a distance from the argument's first byte, if any.
  size_t spansDevice = 0;
  std::function<std::optional<Memory>(int64_t distance)> findOther;
  /// 0: blocks, and threads between barriers, run in the order of their
  /// numbers. Otherwise: in a random order with this seed. No result may depend
  /// on the order.
  uint64_t order = 0;
};

/// Loads the dialects of kernels, so that their text can be parsed.
void loadKernelDialects(MLIRContext &context);

/// Runs `kernel`. Memrefs must have at most one axis and a static shape. An
/// error names the op, the thread and its block, and what is wrong.
LogicalResult simulate(gpu::GPUFuncOp kernel, const SimulatedLaunch &launch);

} // namespace mlir::binade

#endif // BINADE_SIMULATOR_SIMULATOR_H
