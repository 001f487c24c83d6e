//===- Accesses.h - Memory accesses of records ------------------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_ACCESSES_H
#define BINADE_LIB_VERIFICATION_ACCESSES_H

#include "binade/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// The range of a buffer that a record reads or writes in one iteration, from
/// the first to the last element of its view.
struct RecordAccess {
  uint32_t buffer = 0;
  uint64_t offset = 0, bytes = 0; ///< Byte range in the arena.
  int64_t first = 0;              ///< Index in the buffer of the first element.
  ::binade::DType dtype = ::binade::DType::F32;
  bool isWritten = false;
  /// The type in the kernel's signature; null for other records.
  RankedTensorType type = {};
};

/// Returns the kernel of a segment, a function of `source`; null if `source`
/// does not have it.
func::FuncOp findKernel(ModuleOp source, const ::binade::plan::Launch &launch,
                        const ::binade::plan::Segment &segment);
/// Whether `kernel` is a multi-tensor kernel.
bool isMultiTensorKernel(func::FuncOp kernel);

/// Lists the accesses of a record: for a launch, operands and results of all
/// segments in order; for other records, the tensors of `plan::listOperands`;
/// nothing for loops.
SmallVector<RecordAccess, 0> listAccesses(const ::binade::Plan &plan,
                                          ModuleOp source,
                                          const ::binade::plan::Record &record,
                                          ArrayRef<int64_t> iteration);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_ACCESSES_H
