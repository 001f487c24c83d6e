//===- ColumnSums.h - Reductions over the rows of a row kernel --*- C++ -*-===//
//
// A GPU kernel of rows can also reduce what it computes over all rows, such as
// the parameter gradients of a norm with the gradient of its input. A block of
// threads has a block of rows; its partial results, one per column, are in the
// workspace. A second kernel combines these in order.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_COLUMNSUMS_H
#define BINADE_LIB_CODEGEN_LOOPS_COLUMNSUMS_H

#include "Reduction.h"
#include "Schedules.h"

namespace mlir::binade {

/// The reductions of a kernel whose results have one element per column.
class ColumnSums {
public:
  /// `rows` rows are divided among blocks of `rowsAtATime` or a multiple.
  ColumnSums(ArrayRef<Reduction> reductions, int64_t rows, int64_t columns,
             int64_t rowsAtATime);

  ArrayRef<Reduction> get() const { return reductions; }
  int64_t countBlocks() const { return blocks; }
  int64_t getRowsPerBlock() const { return rowsPerBlock; }
  int64_t getWorkspaceBytes() const;
  /// Stores the partial result of reduction `index` of a block at `column`.
  void store(Emitter &e, unsigned index, Value partial, const Offset &block,
             const Offset &column) const;
  /// Emits the body of `<symbol>.finish`, which stores `results`.
  void emitFinish(Emitter &e, const KernelSource &source,
                  ArrayRef<unsigned> results) const;

private:
  Value view(Emitter &e, unsigned index) const;

  SmallVector<Reduction> reductions;
  int64_t columns, rowsPerBlock, blocks;
};

/// Returns how threads of a second kernel, which combines partial results of
/// columns, share these.
GpuShape getFinishShape(const GpuShape &shape, int64_t columns);

/// Combines partial results as `Reduction::combineAll` does. The threads of a
/// GPU, which divide them as `shape` says, load several at the same time.
Value combinePartials(Emitter &e, const std::optional<GpuShape> &shape,
                      Reduction reduction, Value partials, const Offset &first,
                      int64_t stride, int64_t count);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_COLUMNSUMS_H
