//===- Schedules.h - the loop structures of kernels -------------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_SCHEDULES_H
#define BINADE_LIB_CODEGEN_LOOPS_SCHEDULES_H

#include "Emitter.h"
#include "binade/Codegen/EmitKernel.h"

namespace mlir::binade {

/// A kernel of primitives only, and where its code goes.
struct KernelSource {
  func::FuncOp function;
  ModuleOp formulas; ///< Holds the functions that it names.
  ModuleOp into;
  std::string symbol;
  /// For kernels of a GPU.
  std::optional<GpuShape> shape = std::nullopt;

  SmallVector<Value> getResults() const;
  /// Types of the memory arguments; `workspace` bytes at the end unless 0.
  SmallVector<Type> getBuffers(int64_t workspace) const;
  /// Whether an index is read from memory.
  bool hasIndices() const;
  /// How many elements of a GPU's vector: an access of 16 bytes, if rows of
  /// `columns` have whole vectors of as many.
  int64_t chooseLanes(int64_t columns) const;
};

/// Items of a reduction on a GPU, about, so that few partial results are left
/// to put together.
inline constexpr int64_t kMaxItems = 1024;

/// Elements worth a task.
inline constexpr int64_t kTaskElements = 16384;

/// Length of the longest rows, of tensors of `elements` elements, whose vectors
/// need no division of their lanes when `values` are computed.
int64_t findColumns(const KernelSource &source, ArrayRef<Value> values,
                    int64_t elements);

/// Stores results, all of them at `offset`.
void storeResults(Emitter &emitter, ArrayRef<unsigned> results,
                  const Offset &offset);

/// Results of a size that the loops do not have, such as a copy of a few
/// numbers: stored by item 0.
void emitOthers(Emitter &emitter, ArrayRef<unsigned> results,
                const Offset &item);

/// Elements with no reduction, or reductions that leave the rows: one item per
/// row, or per block of a long row.
FailureOr<KernelInfo> emitRows(const KernelSource &source);

/// Reductions that leave the last axis: one item per block of rows and of
/// columns.
FailureOr<KernelInfo> emitColumns(const KernelSource &source);

/// The same where results depend on them, or rows have groups: one item per
/// block of columns, with all rows.
FailureOr<KernelInfo> emitTiles(const KernelSource &source);

/// Reductions of all elements: one item per block of them.
FailureOr<KernelInfo> emitFull(const KernelSource &source);

/// The matrices that results of a GPU's kernel have with rows and columns
/// swapped, if one does.
std::optional<Matrices> findTransposedResults(const KernelSource &source);

/// The same where results are turned, or elements with such results: one item
/// per tile of the matrices.
FailureOr<KernelInfo> emitTransposedCopy(const KernelSource &source,
                                         const Matrices &matrices);

/// Rows added up by index: one item per block of the table.
FailureOr<KernelInfo> emitScatter(const KernelSource &source);

/// What the elements of one tensor are like: one item per block of them.
FailureOr<KernelInfo> emitStatistics(const KernelSource &source);

/// Results without elements: no item.
FailureOr<KernelInfo> emitNothing(const KernelSource &source);

/// Numbers: one item.
FailureOr<KernelInfo> emitScalars(const KernelSource &source);

/// Written for one vector, runs over any number of elements.
FailureOr<KernelInfo> emitMultiTensor(const KernelSource &source);

/// Says which results may overwrite which operands, and tells the target that
/// all other memory does not overlap. `finish` is the second part, if any.
void setInPlace(Emitter &emitter, KernelInfo &info,
                const Emitter *finish = nullptr);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_SCHEDULES_H
