//===- ColumnSums.cpp - Reductions over the rows of a row kernel ----------===//

#include "ColumnSums.h"
#include "RowBlocks.h"
#include "binade/IR/Build.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

/// Threads of `<symbol>.finish`, and how many of them are along the columns: a
/// few, so that each adds few of the partial results.
static constexpr int64_t kThreads = 512, kThreadsAcross = 8, kMaxLanes = 4;
/// How many partial results such a thread loads before it adds them.
static constexpr int64_t kPartialsInFlight = 4;
/// Minimum rows per thread, so that few partial results remain.
static constexpr int64_t kRowsOfSum = 8;

ColumnSums::ColumnSums(ArrayRef<Reduction> reductions, int64_t rows,
                       int64_t columns, int64_t rowsAtATime)
    : reductions(reductions), columns(columns),
      rowsPerBlock(
          llvm::alignTo(std::max<int64_t>(llvm::divideCeil(rows, kMaxItems),
                                          rowsAtATime * kRowsOfSum),
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

GpuShape mlir::binade::getFinishShape(const GpuShape &shape, int64_t columns) {
  GpuShape finish = shape;
  finish.threads = kThreads;
  finish.team = kThreadsAcross;
  finish.down = kThreads / kThreadsAcross;
  finish.lanes = std::gcd(kMaxLanes, columns);
  return finish;
}

void ColumnSums::emitFinish(Emitter &e, const KernelSource &source,
                            ArrayRef<unsigned> results) const {
  GpuShape shape = getFinishShape(GpuShape(), columns);
  int64_t width = shape.team * shape.lanes;
  SmallVector<Value> values = source.getResults();
  e.forAll(llvm::divideCeil(columns, width), [&](const Offset &part) {
    e.ownColumns(e.number(part * width), columns, /*group=*/0,
                 [&](const Offset &column) {
                   for (auto [index, reduction] : llvm::enumerate(reductions))
                     reduction.define(e,
                                      combinePartials(e, shape, reduction,
                                                      view(e, index), column,
                                                      columns, blocks),
                                      column);
                   e.setPlaces(std::nullopt, std::nullopt);
                   for (unsigned index : results)
                     e.storeResult(index, e.pull(values[index], column).value,
                                   column);
                 });
  });
}

Value mlir::binade::combinePartials(Emitter &e,
                                    const std::optional<GpuShape> &shape,
                                    Reduction reduction, Value partials,
                                    const Offset &first, int64_t stride,
                                    int64_t count) {
  if (!shape || count == 1)
    return reduction.combineAll(e, partials, first, stride, count);
  ImplicitLocOpBuilder &b = e.builder();
  auto widen = [&](Value x) -> Value {
    if (!isa<ReduceSumOp>(reduction.op) ||
        getElementTypeOrSelf(x.getType()).isF64())
      return x;
    Type wide = b.getF64Type();
    if (auto vector = dyn_cast<VectorType>(x.getType()))
      wide = vector.clone(wide);
    return arith::ExtFOp::create(b, wide, x);
  };
  SmallVector<Value> loaded;
  auto load = [&](const Offset &at) {
    loaded.push_back(e.loadNow(partials, first + at * stride));
  };
  size_t next = 0;
  auto add = [&](const Offset &, ValueRange now) {
    return SmallVector<Value>{
        reduction.combine(b, now.front(), widen(loaded[next++]))};
  };
  Value total =
      splat(b, widen(e.loadNow(partials, first)), reduction.getNeutral());
  int64_t together = std::clamp<int64_t>(llvm::divideCeil(count, shape->down),
                                         1, kPartialsInFlight);
  RowBlock block = {shape->down, together,
                    count % (shape->down * together) == 0};
  total = forRowBlocks(e, e.index(0), e.index(count), count, total, block, load,
                       add)
              .front();
  return e.combineThreads(
      total, [&](Value x, Value y) { return reduction.combine(b, x, y); });
}
