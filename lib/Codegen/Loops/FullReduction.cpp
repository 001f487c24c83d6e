//===- FullReduction.cpp - Reductions over all elements -------------------===//
//
// A work item reduces a block of elements, whose size depends only on the
// shape, to one partial result in the workspace; `finish` combines these in
// order.
//
//===----------------------------------------------------------------------===//

#include "FullReduction.h"
#include "OrderedMaximum.h"
#include "binade/IR/Build.h"

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// FullReductions
//===----------------------------------------------------------------------===//

FullReductions::FullReductions(func::FuncOp function) {
  for (Operation &op : function.front())
    if (auto reduction = Reduction::from(&op))
      reductions.push_back(*reduction);
}

void FullReductions::setItems(int64_t items, KernelInfo &info) {
  info.extent = extent = items;
  info.hasFinish = !reductions.empty();
  if (info.hasFinish || info.hasStatus)
    info.workspaceBytes = kStatusBytes + reductions.size() * extent * 8;
}

/// Returns the partial results of all work items.
Value FullReductions::view(Emitter &e, unsigned reduction) const {
  return e.viewWorkspace(kStatusBytes + reduction * extent * 8, extent,
                         reductions[reduction].getPartialType());
}

SmallVector<Value> FullReductions::start(Emitter &e) const {
  return llvm::map_to_vector(reductions, [&](Reduction reduction) {
    if (OrderedMaximum::isFor(reduction, e))
      return OrderedMaximum(reduction).start(e);
    return reduction.start(e.builder(), e.wholeLanes());
  });
}

SmallVector<Value> FullReductions::accumulate(Emitter &e, ValueRange partials,
                                              const Offset &offset) const {
  SmallVector<Value> next;
  for (auto [reduction, partial] : llvm::zip(reductions, partials))
    next.push_back(
        OrderedMaximum::isFor(reduction, e)
            ? OrderedMaximum(reduction).accumulate(e, partial, offset)
            : reduction.accumulate(e, partial, offset));
  return next;
}

void FullReductions::store(Emitter &e, ValueRange partials,
                           const Offset &item) const {
  for (auto [index, partial] : llvm::enumerate(partials)) {
    Reduction reduction = reductions[index];
    Value own = OrderedMaximum::isFor(reduction, e)
                    ? OrderedMaximum(reduction).finish(e, partial)
                    : reduction.finish(e, partial);
    e.storeOnce(view(e, index), own, item);
  }
}

LogicalResult FullReductions::finish(const KernelSource &source, Emitter &items,
                                     KernelInfo &info,
                                     ArrayRef<unsigned> results) const {
  if (reductions.empty()) {
    setInPlace(items, info);
    return items.status();
  }
  std::optional<GpuShape> shape = source.shape;
  if (shape)
    shape = shape->ofRows();
  Emitter e(source.function, source.formulas, source.into,
            source.symbol + ".finish",
            TypeRange(source.getBuffers(info.workspaceBytes)), 1, shape);
  e.forAll(1, [&](const Offset &) {
    for (auto [index, reduction] : llvm::enumerate(reductions))
      reduction.define(
          e, reduction.combineAll(e, view(e, index), Offset(), 1, extent),
          Offset());
    emitSmallResults(e, results, Offset());
  });
  setInPlace(items, info, &e);
  return success(succeeded(items.status()) && succeeded(e.status()));
}

//===----------------------------------------------------------------------===//
// Blocks of elements
//===----------------------------------------------------------------------===//

namespace {
/// Emits a kernel whose reductions are over all elements.
class FullReductionKernel {
  /// Work items on a GPU: few enough for one block to combine their partial
  /// results, and enough that the time of one is short.
  static constexpr int64_t kMaxBlocks = 4096;

public:
  explicit FullReductionKernel(const KernelSource &source)
      : source(source), results(source.getResults()),
        reductions(source.function) {}

  FailureOr<KernelInfo> emit() {
    SmallVector<Value> values(results);
    for (Reduction reduction : reductions.get())
      values.push_back(reduction.getInput());
    elements = getTensor(reductions.get().front().getInput()).getNumElements();
    columns = findColumns(source, values, elements);
    rows = elements / columns;
    std::optional<GpuShape> shape = source.shape;
    if (shape) {
      int64_t lanes = source.chooseLanes(columns);
      int64_t share = llvm::divideCeil(elements, kMaxBlocks);
      perItem = llvm::alignTo(std::max(share, perItem), kTaskElements);
      shape = shape->fit(lanes, std::min(columns, perItem), perItem / columns);
    }
    if (columns > perItem)
      blocks = llvm::divideCeil(columns, perItem);
    else
      rowsPerItem = perItem / columns;

    KernelInfo info;
    info.symbol = source.symbol;
    info.hasStatus = source.hasIndices();
    reductions.setItems(llvm::divideCeil(rows, rowsPerItem) * blocks, info);
    Emitter items(source.function, source.formulas, source.into,
                  source.symbol + ".items",
                  TypeRange(source.getBuffers(info.workspaceBytes)), 2, shape);
    SmallVector<unsigned> stored, others;
    for (auto [index, result] : llvm::enumerate(results))
      (getTensor(result).getNumElements() == elements ? stored : others)
          .push_back(index);
    items.forItems(info.extent,
                   [&](const Offset &item) { emitItem(items, stored, item); });
    if (failed(reductions.finish(source, items, info, others)))
      return failure();
    return info;
  }

private:
  void emitItem(Emitter &e, ArrayRef<unsigned> stored, const Offset &counter) {
    auto [group, block] = e.offsets().divide(counter, blocks).asPair();
    Value begin = e.number(group * rowsPerItem);
    Value end = arith::MinUIOp::create(
        e.builder(),
        arith::AddIOp::create(e.builder(), begin, e.index(rowsPerItem)),
        e.index(rows));
    Value column = e.number(block * perItem);
    SmallVector<Value> partials = e.rows(
        begin, end, rows, reductions.start(e),
        [&](const Offset &row, ValueRange now) {
          return e.columnBlock(column, perItem, columns, now,
                               [&](const Offset &place, ValueRange carried) {
                                 Offset offset = row * columns + place;
                                 e.setPlaces(offset, std::nullopt);
                                 SmallVector<Value> next =
                                     reductions.accumulate(e, carried, offset);
                                 storeResults(e, stored, offset);
                                 return next;
                               });
        });
    reductions.store(e, partials, counter);
  }

  KernelSource source;
  SmallVector<Value> results;
  FullReductions reductions;
  int64_t elements = 0, columns = 1, rows = 1, rowsPerItem = 1, blocks = 1;
  int64_t perItem = kTaskElements;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitFull(const KernelSource &source) {
  return FullReductionKernel(source).emit();
}
