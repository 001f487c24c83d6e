//===- FullReduction.h - reductions of all elements -------------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_FULLREDUCTION_H
#define BINADE_LIB_CODEGEN_LOOPS_FULLREDUCTION_H

#include "Reduction.h"
#include "Schedules.h"

namespace mlir::binade {

/// Reductions of all elements of a kernel: each item leaves a number in the
/// workspace, and `finish` puts the numbers together in order.
class FullReductions {
public:
  /// Those of `function`.
  explicit FullReductions(func::FuncOp function);

  ArrayRef<Reduction> get() const { return reductions; }
  /// Says that there are so many items, and what they need.
  void setItems(int64_t items, KernelInfo &info);
  /// Partial results of one thread, before it has seen any element.
  SmallVector<Value> start(Emitter &e) const;
  /// `partials` with the elements at `offset`.
  SmallVector<Value> accumulate(Emitter &e, ValueRange partials,
                                const Offset &offset) const;
  /// Stores what the threads of item `item` have together.
  void store(Emitter &e, ValueRange partials, const Offset &item) const;
  /// Emits `finish`, which stores `results`, if there are reductions, and says
  /// what may be in place.
  LogicalResult finish(const KernelSource &source, Emitter &items,
                       KernelInfo &info, ArrayRef<unsigned> results) const;

private:
  Value view(Emitter &e, unsigned reduction) const;

  SmallVector<Reduction> reductions;
  int64_t extent = 0; ///< Items.
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_FULLREDUCTION_H
