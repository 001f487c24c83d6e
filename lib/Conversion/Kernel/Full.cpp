//===- Full.cpp - reductions of all elements ------------------------------===//
//
// An item reduces a block of elements, whose size depends on the shape only, to
// one number in the workspace; `finish` puts the numbers together in order.
//
//===----------------------------------------------------------------------===//

#include "Reduction.h"
#include "Schedules.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
class FullKernel {
public:
  explicit FullKernel(const KernelSource &source)
      : source(source), results(source.getResults()) {}

  FailureOr<KernelInfo> emit() {
    SmallVector<Value> values(results);
    for (Operation &op : source.function.front())
      if (auto reduction = Reduction::from(&op)) {
        reductions.push_back(*reduction);
        values.push_back(reduction->getInput());
      }
    elements = getTensor(reductions.front().getInput()).getNumElements();
    columns = findColumns(source, values, elements);
    rows = elements / columns;
    std::optional<GpuShape> shape = source.shape;
    if (shape) {
      int64_t lanes = source.chooseLanes(columns);
      int64_t share = llvm::divideCeil(elements, kMostItems);
      perItem = llvm::alignTo(std::max(share, perItem), kTaskElements);
      shape = shape->fit(lanes, std::min(columns, perItem), perItem / columns);
    }
    if (columns > perItem)
      blocks = llvm::divideCeil(columns, perItem);
    else
      rowsPerItem = perItem / columns;

    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = extent = llvm::divideCeil(rows, rowsPerItem) * blocks;
    info.hasStatus = source.hasIndices();
    info.hasFinish = true;
    info.workspaceBytes = kStatusBytes + reductions.size() * extent * 8;
    SmallVector<Type> buffers = source.getBuffers(info.workspaceBytes);
    Emitter items(source.function, source.formulas, source.into,
                  source.symbol + ".items", buffers, 2, shape);
    items.forItems(extent, [&](const Offset &item) { emitItem(items, item); });
    Emitter finish(source.function, source.formulas, source.into,
                   source.symbol + ".finish", buffers, 1,
                   shape ? std::optional(shape->ofRows()) : std::nullopt);
    finish.forAll(1, [&](const Offset &) { emitFinish(finish); });
    setInPlace(items, info, &finish);
    if (failed(items.status()) || failed(finish.status()))
      return failure();
    return info;
  }

private:
  bool isFull(Value value) const {
    return getTensor(value).getNumElements() == elements;
  }

  /// Partial results of `reduction`, one per item.
  Value viewPartials(Emitter &e, unsigned reduction) {
    return e.viewWorkspace(kStatusBytes + reduction * extent * 8, extent,
                           reductions[reduction].getPartialType());
  }

  void emitItem(Emitter &e, const Offset &counter) {
    auto [group, block] = e.offsets().divide(counter, blocks).asPair();
    SmallVector<Value> partials;
    for (Reduction reduction : reductions)
      partials.push_back(reduction.start(e.builder(), e.wholeLanes()));
    Value begin = e.number(group * rowsPerItem);
    Value end = arith::MinUIOp::create(
        e.builder(),
        arith::AddIOp::create(e.builder(), begin, e.index(rowsPerItem)),
        e.index(rows));
    Value column = e.number(block * perItem);
    partials = e.rows(
        begin, end, rows, partials, [&](const Offset &row, ValueRange now) {
          return e.columnBlock(column, perItem, columns, now,
                               [&](const Offset &offset, ValueRange carried) {
                                 return emitColumns(e, row * columns + offset,
                                                    carried);
                               });
        });
    for (unsigned index = 0; index < reductions.size(); ++index)
      e.storeOnce(viewPartials(e, index),
                  reductions[index].finish(e, partials[index]), counter);
  }

  SmallVector<Value> emitColumns(Emitter &e, const Offset &offset,
                                 ValueRange carried) {
    e.setPlaces(offset, std::nullopt);
    SmallVector<Value> next;
    for (auto [reduction, partial] : llvm::zip(reductions, carried))
      next.push_back(reduction.accumulate(
          e.builder(), partial, e.pullLanes(reduction.getInput(), offset)));
    SmallVector<unsigned> stored;
    for (auto [index, result] : llvm::enumerate(results))
      if (isFull(result))
        stored.push_back(index);
    storeResults(e, stored, offset);
    return next;
  }

  void emitFinish(Emitter &e) {
    for (unsigned index = 0; index < reductions.size(); ++index) {
      Reduction reduction = reductions[index];
      Value partials = viewPartials(e, index);
      Value total = reduction.combineAll(e, partials, Offset(), 1, extent);
      reduction.define(e, total, Offset());
    }
    SmallVector<unsigned> others;
    for (auto [index, result] : llvm::enumerate(results))
      if (!isFull(result))
        others.push_back(index);
    emitOthers(e, others, Offset());
  }

  KernelSource source;
  SmallVector<Value> results;
  SmallVector<Reduction> reductions;
  int64_t elements = 0, columns = 1, rows = 1, rowsPerItem = 1, blocks = 1;
  int64_t perItem = kTaskElements;
  int64_t extent = 0; ///< Items.
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitFull(const KernelSource &source) {
  return FullKernel(source).emit();
}
