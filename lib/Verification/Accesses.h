//===- Accesses.h - what a record reads and writes --------------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_ACCESSES_H
#define BINADE_LIB_VERIFICATION_ACCESSES_H

#include "binade/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Elements of a buffer that a record reads or writes in one iteration: those
/// of its view, and what lies between them.
struct RecordAccess {
  uint32_t buffer = 0;
  uint64_t offset = 0, bytes = 0; ///< In the arena.
  int64_t first = 0;              ///< The buffer's element at `offset`.
  ::binade::DType dtype = ::binade::DType::F32;
  bool isWritten = false;
  /// What the kernel says of it; null for other records.
  RankedTensorType type = {};
};

/// The kernel of a segment, a function of `source`; null where there is none.
func::FuncOp findKernel(ModuleOp source, const ::binade::plan::Launch &launch,
                        const ::binade::plan::Segment &segment);
bool isOverMany(func::FuncOp kernel);

/// Operands and results of all segments of a launch, one after the other; of
/// other records the tensors among their operands, in the order of
/// `plan::listOperands`. None for loops.
SmallVector<RecordAccess, 0> listAccesses(const ::binade::Plan &plan,
                                          ModuleOp source,
                                          const ::binade::plan::Record &record,
                                          ArrayRef<int64_t> iteration);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_ACCESSES_H
