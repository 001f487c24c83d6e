//===- WalkPlan.h - what a kernel with reductions does when -----*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_WALKPLAN_H
#define BINADE_LIB_CODEGEN_LOOPS_WALKPLAN_H

#include "Reduction.h"
#include "Schedules.h"

namespace mlir::binade {

/// What one walk over the elements of an item, or of a group in it, does.
struct Step {
  SmallVector<Reduction> reductions, groups;
  SmallVector<unsigned> stores; ///< Indices of results.
  SmallVector<Value> kept;      ///< Values that later steps read.
  llvm::DenseSet<Value> seen;   ///< What is computed for that.

  bool isEmpty() const {
    return reductions.empty() && groups.empty() && stores.empty();
  }
};

/// Stores what `step` leaves of the element at `offset`: its results there, and
/// what it keeps at `own` of `buffers`, which have `count` elements each.
void storeElement(Emitter &emitter, const Step &step, const Offset &offset,
                  DenseMap<Value, Value> &buffers, int64_t count,
                  const Offset &own);

/// One walk over an item: its steps one after the other or, where groups
/// matter, all of them over one group after the other.
struct Walk {
  std::vector<Step> steps;
  SmallVector<unsigned> groupStores; ///< Results with an element per group.

  bool isOfGroups() const {
    return !groupStores.empty() || llvm::any_of(steps, [](const Step &step) {
      return !step.groups.empty();
    });
  }
  SmallVector<Reduction> getReductions() const;
};

struct WalkPlan {
  /// What a value has one number for: each element of an item, each entry of
  /// the kept axes, each group, or none of those.
  enum class Per { Element, Kept, Group, Other };

  SmallVector<Value> results;
  Loops loops;
  bool hasReductions = false;
  /// Neighbours in a row that are reduced together; 0 where there are none, or
  /// they are rows.
  int64_t group = 0;
  int64_t elements = 0;
  /// Columns of an item, if it has not all.
  int64_t width = 0;
  /// Whether later walks read results back. On a GPU a team without an item
  /// does another's again, and would read what that just writes.
  bool readsBack = true;
  /// How threads of a GPU share an item.
  std::optional<GpuShape> shape;
  std::vector<Walk> walks;
  DenseMap<Value, Per> known; ///< Of all that ops make.

  /// Of items that are rows, or have all rows of a channel.
  static FailureOr<WalkPlan> ofRows(const KernelSource &source);
  /// Of items that have all rows of some columns.
  static FailureOr<WalkPlan> ofTiles(const KernelSource &source);

  Per per(Value value) const;
  bool isFull(Value value) const { return per(value) == Per::Element; }
  bool isPerKept(Value value) const { return per(value) == Per::Kept; }
  bool isPerGroup(Value value) const { return per(value) == Per::Group; }
  /// Whether items have equal numbers of columns.
  bool isEven() const { return loops.getColumns() % width == 0; }
};

/// Kernels of tiles on a GPU.
FailureOr<KernelInfo> emitGpuTiles(const KernelSource &source, WalkPlan plan);

/// Rows of this length and less are walked over at once.
inline constexpr int64_t kLongRow = 8192;

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_WALKPLAN_H
