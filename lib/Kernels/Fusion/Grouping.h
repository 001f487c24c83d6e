//===- Grouping.h - Fusion groups -------------------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_FUSION_GROUPING_H
#define BINADE_LIB_KERNELS_FUSION_GROUPING_H

#include "binade/IR/Interface.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::binade {

/// Ops that are executed together: a kernel, or a single library call or view.
struct FusionGroup {
  /// In program order, never empty.
  SmallVector<Operation *> ops;
  /// Loop structure of the kernel. Views and library calls are not kernels.
  Schedule schedule = Schedule::View;
  /// The shape of the kernel's loops.
  SmallVector<int64_t> shape;
  Phase phase = Phase::Forward;
  /// If the group only observes the step: it is executed in steps that are
  /// multiples of this number.
  std::optional<int64_t> every = {};
  /// Greater than the level of any group that this one reads.
  unsigned level = 0;
  /// The axes and groups that its row reductions reduce, at most one set of
  /// axes and one group size, and the shapes of the results.
  SmallVector<Reduced, 2> reduced = {};
  SmallVector<SmallVector<int64_t>, 2> left = {};
};

/// Assigns the ops of `body` to fusion groups and sorts these in execution
/// order. An op with a region is a group of its own. Ops that kernels recompute
/// are in no group unless something other than a kernel reads them. Takes
/// linear time in the number of ops.
std::vector<FusionGroup> groupOps(Block &body);

/// The attribute with the axes of a reduction.
inline constexpr StringLiteral kAxes = "axes";

/// Values that are smaller than a kernel's result by this factor stay in a
/// cache.
inline constexpr int64_t kCached = 16;

/// Elements of the widest vector that a kernel loads; they must be contiguous.
inline constexpr int64_t kWidestVector = 8;

/// Returns the loop structure of `op`: that of a library call if it has none.
Schedule getSchedule(Operation *op);

/// Whether `op`, if any, computes each element from one of each operand.
bool isElementwiseKernel(Operation *op);

/// Whether `op` is computed in a kernel, rather than by a library or as a view.
bool isKernel(Operation *op);

/// Whether kernels recompute `op` instead of loading its result.
bool isRecomputed(Operation *op);

/// Whether multi-tensor kernels, which see one element at a time, do so.
bool isRecomputedInMultiTensor(Operation *op);

/// Returns the values that `group` reads and its kernel does not compute.
llvm::SetVector<Value> getMemory(const FusionGroup &group);

/// Adds the ops whose kernels read `value`, directly or through recomputed ops.
void addReaders(Value value, llvm::SetVector<Operation *> &readers);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_FUSION_GROUPING_H
