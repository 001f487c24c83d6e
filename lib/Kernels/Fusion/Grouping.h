//===- Grouping.h - which ops share a kernel --------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_FUSION_GROUPING_H
#define BINADE_LIB_KERNELS_FUSION_GROUPING_H

#include "binade/IR/Interface.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {

/// Ops that are executed as one: a kernel, a library call or a view.
struct FusionGroup {
  /// In program order; empty never.
  SmallVector<Operation *> ops;
  /// Loop structure of the kernel; View and Library are not kernels.
  Schedule schedule = Schedule::View;
  /// Shape that the loops run over.
  SmallVector<int64_t> shape;
  Phase phase = Phase::Forward;
  /// Of what only watches the step: the steps that it is executed in, multiples
  /// of this.
  std::optional<int64_t> every = {};
  /// Longer than that of any group that this one reads from.
  unsigned level = 0;
  /// What its reductions of rows take together, at most one set of axes and one
  /// size of groups, and the shapes of what is left.
  SmallVector<Reduced, 2> reduced = {};
  SmallVector<SmallVector<int64_t>, 2> left = {};
};

/// Sorts the ops of `body` into groups and the groups into an order of
/// execution. An op with a body of its own is one group. Ops that kernels
/// recompute are in no group unless something other than a kernel reads them.
/// Linear in the number of ops.
std::vector<FusionGroup> groupOps(Block &body);

/// Whether kernels compute `op` again instead of reading its result.
bool isRecomputed(Operation *op);

/// The same for kernels over many tensors, which look at one element.
bool isRecomputedOverMany(Operation *op);

/// What `group` reads that its kernel does not compute.
llvm::SetVector<Value> getMemory(const FusionGroup &group);

/// Adds the ops whose kernels read `value`: they do so themselves, or by what
/// is recomputed from it.
void addReaders(Value value, llvm::SetVector<Operation *> &readers);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_FUSION_GROUPING_H
