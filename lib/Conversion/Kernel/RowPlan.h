//===- RowPlan.h - what a kernel over rows does when ------------*- C++ -*-===//

#ifndef BINADE_LIB_CONVERSION_KERNEL_ROWPLAN_H
#define BINADE_LIB_CONVERSION_KERNEL_ROWPLAN_H

#include "Reduction.h"
#include "Schedules.h"

namespace mlir::binade {

/// What one walk over the elements of a row, or of a group in it, does.
struct RowStep {
  SmallVector<Reduction> reductions, groups;
  SmallVector<unsigned> stores; ///< Indices of results.
  SmallVector<Value> kept;      ///< Values that later steps read.
  llvm::DenseSet<Value> seen;   ///< What is computed for that.

  bool isEmpty() const {
    return reductions.empty() && groups.empty() && stores.empty();
  }
};

/// One walk over a row: its steps one after the other or, where groups matter,
/// all of them over one group after the other.
struct RowPass {
  std::vector<RowStep> steps;
  SmallVector<unsigned> groupStores; ///< Results with an element per group.

  bool isOfGroups() const {
    return !groupStores.empty() || llvm::any_of(steps, [](const RowStep &step) {
      return !step.groups.empty();
    });
  }
};

struct RowPlan {
  SmallVector<Value> results;
  Loops loops;
  bool hasReductions = false; ///< Of rows, or of groups in them.
  int64_t group = 0; ///< Elements of one; 0 where there are none, or rows.
  int64_t elements = 0;
  std::vector<RowPass> passes;

  static FailureOr<RowPlan> of(const KernelSource &source);

  bool isFull(Value value) const {
    return getTensor(value).getNumElements() == elements;
  }
  bool isPerRow(Value value) const {
    return !isFull(value) &&
           getTensor(value).getNumElements() == loops.getKept();
  }
  bool isPerGroup(Value value) const {
    return group > 0 && getTensor(value).getNumElements() * group == elements;
  }
};

/// Rows of this length and less are walked over at once.
inline constexpr int64_t kLongRow = 8192;

} // namespace mlir::binade

#endif // BINADE_LIB_CONVERSION_KERNEL_ROWPLAN_H
