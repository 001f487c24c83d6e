//===- PassPlan.h - Passes of a kernel with reductions ----------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_PASSPLAN_H
#define BINADE_LIB_CODEGEN_LOOPS_PASSPLAN_H

#include "OnlineSum.h"
#include "Reduction.h"
#include "Schedules.h"

namespace mlir::binade {

/// What one pass over the elements of a work item, or of a group in it,
/// computes.
struct Step {
  SmallVector<Reduction> reductions, groups;
  SmallVector<Reduction> columns; ///< Reductions over all rows.
  SmallVector<unsigned> stores;   ///< Indices of results.
  SmallVector<Value> kept;        ///< Values that later steps read.
  llvm::DenseSet<Value> seen;     ///< Values computed for these.

  bool isEmpty() const {
    return reductions.empty() && groups.empty() && columns.empty() &&
           stores.empty();
  }
};

/// Computes the element at `offset` for `step`: stores its results there, and
/// the values to keep at `own` of `buffers`, which have `count` elements each.
void storeElement(Emitter &emitter, const Step &step, const Offset &offset,
                  DenseMap<Value, Value> &buffers, int64_t count,
                  const Offset &own);

/// One pass over a work item: its steps in sequence or, with groups, all steps
/// over each group in turn.
struct ElementPass {
  std::vector<Step> steps;
  SmallVector<unsigned> groupStores; ///< Results with an element per group.

  bool hasGroups() const {
    return !groupStores.empty() || llvm::any_of(steps, [](const Step &step) {
      return !step.groups.empty();
    });
  }
  SmallVector<Reduction> getReductions() const;
};

/// The passes of a kernel, and the shape of its work items.
struct PassPlan {
  /// What a value has one element for: each element of a work item, each entry
  /// of the kept axes, each group, or none of these.
  enum class Per { Element, Kept, Group, Other };

  SmallVector<Value> results;
  Loops loops;
  bool hasReductions = false;
  /// Number of adjacent elements in a row that are reduced together; 0 without
  /// groups, or if each group is a row.
  int64_t group = 0;
  int64_t elements = 0;
  /// Columns per work item, if it does not have all.
  int64_t width = 0;
  /// Whether later passes read results back. On a GPU a team without a work
  /// item repeats another team's, and would read what that team is writing.
  bool readsBack = true;
  /// How threads of a GPU share a work item.
  std::optional<GpuShape> shape;
  /// Whether a thread of a GPU keeps its vectors of a row in registers, so that
  /// later passes read nothing from memory.
  bool keepsRow = false;
  /// Whether a GPU reads rows in chunks in each pass, and computes sums of
  /// exponentials in the pass of the maximum.
  bool hasLongRows = false;
  /// In both cases, the threads that a multiprocessor should run at the same
  /// time, at least. The assembler may use as many registers as this allows; by
  /// itself it spills some in order to run more threads, or uses so many that
  /// too few run.
  int64_t residentThreads = 0;
  /// How many vectors a thread of a GPU loads before it computes anything.
  int64_t vectorsInFlight = 1;
  std::vector<ElementPass> passes;
  DenseMap<Value, Per> known; ///< For all results of ops.
  /// Reductions that leave columns, and all values that depend on them.
  SmallVector<Reduction> columnSums;
  DenseSet<Value> ofColumnSums;

  /// Plans work items that are rows, or all rows of a channel.
  static FailureOr<PassPlan> ofRows(const KernelSource &source);
  /// Plans work items that are all rows of some columns.
  static FailureOr<PassPlan> ofTiles(const KernelSource &source);

  /// Loads the elements that `step` computes its results at `offset` from, but
  /// those in `seen`.
  void loadOperands(Emitter &emitter, const Step &step, const Offset &offset,
                    DenseSet<Value> &seen) const;

  Per per(Value value) const;
  bool isFull(Value value) const { return per(value) == Per::Element; }
  bool isPerKept(Value value) const { return per(value) == Per::Kept; }
  bool isPerGroup(Value value) const { return per(value) == Per::Group; }
  /// Returns the pair whose second reduction is `reduction`, if the kernel
  /// computes it in one pass.
  std::optional<OnlineSum> findOnlineSum(Reduction reduction) const {
    return hasLongRows ? OnlineSum::from(reduction) : std::nullopt;
  }
  /// Whether all work items have the same number of columns.
  bool isEven() const { return loops.getColumns() % width == 0; }
};

/// Emits a kernel of rows that a GPU's threads keep in registers.
FailureOr<KernelInfo> emitKeptRows(const KernelSource &source, PassPlan plan);

/// Emits a kernel of rows that a GPU reads in chunks.
FailureOr<KernelInfo> emitLongRows(const KernelSource &source, PassPlan plan);

/// Emits a kernel of tiles for a GPU.
FailureOr<KernelInfo> emitGpuTiles(const KernelSource &source, PassPlan plan);

/// On a CPU, the longest row without reductions that is not split into blocks.
inline constexpr int64_t kLongRow = 8192;

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_PASSPLAN_H
