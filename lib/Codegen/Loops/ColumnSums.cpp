//===- ColumnSums.cpp - Reductions over the rows of a row kernel ----------===//

#include "ColumnSums.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

/// Threads of `<symbol>.finish`: a few along the columns, so that each adds few
/// of the partial results.
static constexpr int64_t kThreads = 512, kAcross = 8, kMaxLanes = 4;
/// Minimum rows per thread, so that few partial results remain.
static constexpr int64_t kRowsOfThread = 8;

ColumnSums::ColumnSums(ArrayRef<Reduction> reductions, int64_t rows,
                       int64_t columns, int64_t rowsAtATime)
    : reductions(reductions), columns(columns),
      rowsPerBlock(
          llvm::alignTo(std::max<int64_t>(llvm::divideCeil(rows, kMaxItems),
                                          rowsAtATime * kRowsOfThread),
                        rowsAtATime)),
      blocks(llvm::divideCeil(rows, rowsPerBlock)) {}

int64_t ColumnSums::getWorkspaceBytes() const {
  return reductions.size() * blocks * columns * 8;
}

/// Partial results have 8 bytes each, so that f64 fits, and are ordered as
/// [block, column].
Value ColumnSums::view(Emitter &e, unsigned index) const {
  return e.viewWorkspace(kStatusBytes + index * blocks * columns * 8,
                         blocks * columns, reductions[index].getPartialType());
}

void ColumnSums::store(Emitter &e, unsigned index, Value partial,
                       const Offset &block, const Offset &column) const {
  Value all = e.combineThreads(partial, [&](Value x, Value y) {
    return reductions[index].combine(e.builder(), x, y);
  });
  e.storeOnce(view(e, index), all, block * columns + column);
}

GpuShape ColumnSums::getFinishShape(const GpuShape &shape) const {
  GpuShape finish = shape;
  finish.threads = kThreads;
  finish.team = kAcross;
  finish.down = kThreads / kAcross;
  finish.lanes = std::gcd(kMaxLanes, columns);
  return finish;
}

void ColumnSums::emitFinish(Emitter &e, const KernelSource &source,
                            ArrayRef<unsigned> results) const {
  int64_t width = kAcross * std::gcd(kMaxLanes, columns);
  SmallVector<Value> values = source.getResults();
  e.forAll(llvm::divideCeil(columns, width), [&](const Offset &part) {
    e.ownColumns(
        e.number(part * width), columns, /*group=*/0,
        [&](const Offset &column) {
          for (auto [index, reduction] : llvm::enumerate(reductions))
            reduction.define(e,
                             reduction.combineAll(e, view(e, index), column,
                                                  columns, blocks),
                             column);
          e.setPlaces(std::nullopt, std::nullopt);
          for (unsigned index : results)
            e.storeResult(index, e.pull(values[index], column).value, column);
        });
  });
}
