//===- Schedules.h - Schedules of kernels -----------------------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_SCHEDULES_H
#define BINADE_LIB_CODEGEN_LOOPS_SCHEDULES_H

#include "Emitter.h"
#include "binade/Codegen/EmitKernel.h"

namespace mlir::binade {

/// A kernel that contains primitives only, and the module that its code is
/// added to.
struct KernelSource {
  func::FuncOp function;
  ModuleOp formulas; ///< Contains the functions it refers to.
  ModuleOp into;
  std::string symbol;
  /// Set for GPU kernels.
  std::optional<GpuShape> shape = std::nullopt;
  /// Whether an op computes each element from its neighbors, so that neighbors
  /// share most of their arithmetic.
  bool readsNeighbors = false;

  SmallVector<Value> getResults() const;
  /// Returns the types of the memory arguments, with a workspace of `workspace`
  /// bytes at the end unless this is 0.
  SmallVector<Type> getBuffers(int64_t workspace) const;
  /// Whether the kernel reads an index from memory.
  bool hasIndices() const;
  /// Returns the number of elements of a GPU's vector: as many as a 16-byte
  /// access of the narrowest tensor has, at most 8, and a divisor of `columns`.
  int64_t chooseLanes(int64_t columns) const;
};

/// Approximate maximum of a reduction's work items on a GPU, so that few
/// partial results remain to be combined.
inline constexpr int64_t kMaxItems = 1024;

/// Elements per task.
inline constexpr int64_t kTaskElements = 16384;

/// Returns the length of the longest rows, for tensors of `elements` elements,
/// such that no vector crosses a boundary that computing `values` depends on.
int64_t findColumns(const KernelSource &source, ArrayRef<Value> values,
                    int64_t elements);

/// Stores `results` at `offset`.
void storeResults(Emitter &emitter, ArrayRef<unsigned> results,
                  const Offset &offset);

/// Stores results whose size differs from the loops', such as a copy of a few
/// elements. Work item 0 does it.
void emitSmallResults(Emitter &emitter, ArrayRef<unsigned> results,
                      const Offset &item);

/// Kernels without a reduction, or with reductions over the last axes: one work
/// item per row, or per block of a long row.
FailureOr<KernelInfo> emitRows(const KernelSource &source);

/// Reductions that keep the last axis: one work item per block of rows and
/// block of columns.
FailureOr<KernelInfo> emitColumns(const KernelSource &source);

/// Such reductions if results depend on them, or if rows have groups: one work
/// item per block of columns, with all rows.
FailureOr<KernelInfo> emitTiles(const KernelSource &source);

/// Reductions over all elements: one work item per block of elements.
FailureOr<KernelInfo> emitFull(const KernelSource &source);

/// Returns the matrices that a result of a GPU's kernel has transposed, if
/// there is such a result.
std::optional<Matrices> findTransposedResults(const KernelSource &source);

/// Elementwise kernels and full reductions with transposed results: one work
/// item per tile of the matrices.
FailureOr<KernelInfo> emitTransposedCopy(const KernelSource &source,
                                         const Matrices &matrices);

/// Scatter-add of rows by index: one work item per block of the table.
FailureOr<KernelInfo> emitScatter(const KernelSource &source);

/// Statistics of one tensor: one work item per block of elements.
FailureOr<KernelInfo> emitStatistics(const KernelSource &source);

/// Kernels whose results are empty: no work items.
FailureOr<KernelInfo> emitNothing(const KernelSource &source);

/// Kernels of scalars: one work item.
FailureOr<KernelInfo> emitScalars(const KernelSource &source);

/// Multi-tensor kernels, which process any number of elements.
FailureOr<KernelInfo> emitMultiTensor(const KernelSource &source);

/// Sets the number of work items of a block, where `shape` is that of a batched
/// kernel: its table has a row for each block.
inline void setBatchGrain(KernelInfo &info,
                          const std::optional<GpuShape> &shape) {
  if (shape && shape->isBatched)
    info.grain = shape->countItems();
}

/// Sets which results may overwrite which operands, and marks all other buffers
/// as not aliasing. `finish` is the emitter of `<symbol>.finish`, if any.
void setInPlace(Emitter &emitter, KernelInfo &info,
                const Emitter *finish = nullptr);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_SCHEDULES_H
