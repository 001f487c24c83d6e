//===- Warp.h - what the threads of a warp do together ----------*- C++ -*-===//

#ifndef BINADE_LIB_SIMULATOR_WARP_H
#define BINADE_LIB_SIMULATOR_WARP_H

#include "Machine.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include <functional>

namespace mlir::binade {

/// The numbers of a value in registers.
struct Registers {
  uint32_t first = 0, count = 0;
};

/// Does one op for all threads of a warp, which have come to it.
using Exchange = std::function<void(Machine &, MutableArrayRef<Thread>)>;

/// The registers of each operand, and of each result.
Exchange getExchange(gpu::ShuffleOp op, ArrayRef<Registers> operands,
                     ArrayRef<Registers> results);
Exchange getExchange(gpu::SubgroupReduceOp op, ArrayRef<Registers> operands,
                     ArrayRef<Registers> results);
Exchange getExchange(nvgpu::MmaSyncOp op, ArrayRef<Registers> operands,
                     ArrayRef<Registers> results);
/// `matrix` is the place that a thread names.
Exchange getExchange(nvgpu::LdMatrixOp op,
                     std::function<Place(const Thread &)> matrix,
                     Registers result);

} // namespace mlir::binade

#endif // BINADE_LIB_SIMULATOR_WARP_H
