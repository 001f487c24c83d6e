//===- FullReduction.h - Reductions over all elements -----------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_FULLREDUCTION_H
#define BINADE_LIB_CODEGEN_LOOPS_FULLREDUCTION_H

#include "Reduction.h"
#include "Schedules.h"

namespace mlir::binade {

/// The reductions over all elements of a kernel. Each work item stores a
/// partial result in the workspace, and `finish` combines them in order.
class FullReductions {
public:
  /// Collects the reductions of `function`.
  explicit FullReductions(func::FuncOp function);

  ArrayRef<Reduction> get() const { return reductions; }
  /// Sets the number of work items, and the workspace that they need.
  void setItems(int64_t items, KernelInfo &info);
  /// Returns neutral partial results of one thread.
  SmallVector<Value> start(Emitter &e) const;
  /// Returns `partials` combined with the elements at `offset`.
  SmallVector<Value> accumulate(Emitter &e, ValueRange partials,
                                const Offset &offset) const;
  /// Combines the partial results of all threads and stores them for `item`.
  void store(Emitter &e, ValueRange partials, const Offset &item) const;
  /// Emits `<symbol>.finish`, which combines the partial results and stores
  /// `results`, if there are reductions. Sets the operands that results may
  /// overwrite.
  LogicalResult finish(const KernelSource &source, Emitter &items,
                       KernelInfo &info, ArrayRef<unsigned> results) const;

private:
  Value view(Emitter &e, unsigned reduction) const;

  SmallVector<Reduction> reductions;
  int64_t extent = 0; ///< Number of work items.
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_FULLREDUCTION_H
