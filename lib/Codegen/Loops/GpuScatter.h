//===- GpuScatter.h - Scatter-add of rows by index on GPUs ------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_GPUSCATTER_H
#define BINADE_LIB_CODEGEN_LOOPS_GPUSCATTER_H

#include "Schedules.h"

namespace mlir::binade {

/// Emits a scatter-add for a GPU, to a table that is not empty: one work item
/// per part of the table, then one per row.
FailureOr<KernelInfo> emitGpuScatter(const KernelSource &source,
                                     GatherGradOp op);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_GPUSCATTER_H
