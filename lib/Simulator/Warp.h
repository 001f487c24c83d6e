//===- Warp.h - Ops that warps execute together -----------------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_WARP_H
#define BINADE_LIB_SIMULATOR_WARP_H

#include "Machine.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include <functional>

namespace mlir::binade {

/// The registers of a value, one per lane.
struct Registers {
  uint32_t first = 0, count = 0;
};

/// Executes an op for all threads of a warp, which have reached it.
using Exchange = std::function<void(Machine &, MutableArrayRef<Thread>)>;

/// Return the function for an op, from the registers of its operands and
/// results.
Exchange getExchange(gpu::ShuffleOp op, ArrayRef<Registers> operands,
                     ArrayRef<Registers> results);
Exchange getExchange(gpu::SubgroupReduceOp op, ArrayRef<Registers> operands,
                     ArrayRef<Registers> results);
Exchange getExchange(nvgpu::MmaSyncOp op, ArrayRef<Registers> operands,
                     ArrayRef<Registers> results);
/// `matrix` returns the address that a thread supplies.
Exchange getExchange(nvgpu::LdMatrixOp op,
                     std::function<Place(const Thread &)> matrix,
                     Registers result);

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_WARP_H
