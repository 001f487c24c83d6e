//===- GpuTiles.cpp - Multi-pass column reductions on GPUs ----------------===//
//
// The same as Tiles.cpp for a GPU: a thread has the same columns in all passes,
// and partial results stay in its registers.
//
//===----------------------------------------------------------------------===//

#include "PassPlan.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Emits a kernel of tiles for a GPU.
class GpuTileKernel {
public:
  GpuTileKernel(const KernelSource &source, PassPlan plan)
      : source(source), plan(std::move(plan)), columns(loops.getColumns()),
        rows(loops.getReduced()), batches(loops.getKept() / columns),
        blocks(llvm::divideCeil(columns, this->plan.width)) {}

  FailureOr<KernelInfo> emit() {
    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = batches * blocks;
    info.hasStatus = source.hasIndices();
    info.workspaceBytes = info.hasStatus ? kStatusBytes : 0;
    emitter.emplace(
        source.function, source.formulas, source.into, source.symbol + ".items",
        TypeRange(source.getBuffers(info.workspaceBytes)), 2, plan.shape);
    emitter->forItems(info.extent, [&](const Offset &item) { emitItem(item); });
    setInPlace(*emitter, info);
    if (failed(emitter->status()))
      return failure();
    return info;
  }

private:
  void emitItem(const Offset &counter) {
    Emitter &e = *emitter;
    auto [batch, block] = e.offsets().divide(counter, blocks).asPair();
    SmallVector<unsigned> ofColumns, others;
    for (auto [index, result] : llvm::enumerate(results))
      if (plan.isPerKept(result))
        ofColumns.push_back(index);
      else if (!plan.isFull(result) && !plan.isPerGroup(result))
        others.push_back(index);
    e.ownColumns(e.number(block * plan.width), columns, plan.group,
                 [&, batch = batch](const Offset &column) {
                   for (const ElementPass &pass : plan.passes)
                     emitPass(pass, batch, column);
                   e.setPlaces(std::nullopt, std::nullopt);
                   storeResults(e, ofColumns, batch * columns + column);
                 });
    emitSmallResults(e, others, counter);
  }

  void emitPass(const ElementPass &pass, const Offset &batch,
                const Offset &column) {
    Emitter &e = *emitter;
    SmallVector<Reduction> reductions = pass.getReductions();
    SmallVector<Value> partials =
        e.rows(e.index(0), e.index(rows), rows, start(reductions),
               [&](const Offset &row, ValueRange now) {
                 Offset at = loops.getOffset(e.offsets(), batch, row, column);
                 return emitElement(pass, at, now);
               });
    for (auto [reduction, partial] : llvm::zip(reductions, partials)) {
      Value total = e.combineThreads(partial, [&](Value x, Value y) {
        return reduction.combine(e.builder(), x, y);
      });
      reduction.define(e, total, batch * columns + column);
    }
    e.nextPass();
  }

  /// Emits all steps of `walk` over the elements at `offset`.
  SmallVector<Value> emitElement(const ElementPass &pass, const Offset &offset,
                                 ValueRange carried) {
    Emitter &e = *emitter;
    SmallVector<Value> next;
    Offset group;
    if (plan.group > 0)
      group = e.offsets().divide(offset, plan.group).quotient;
    for (const Step &step : pass.steps) {
      e.setPlaces(offset, std::nullopt);
      for (Reduction reduction : step.reductions)
        next.push_back(
            reduction.combine(e.builder(), carried[next.size()],
                              e.pullLanes(reduction.getInput(), offset)));
      for (Reduction reduction : step.groups) {
        Value lanes = e.pullLanes(reduction.getInput(), offset);
        e.withinGroup(plan.group, [&] {
          reduction.define(e, reduction.finish(e, lanes), group);
        });
      }
      storeResults(e, step.stores, offset);
      e.nextPass();
    }
    if (!pass.groupStores.empty())
      e.withinGroup(plan.group,
                    [&] { storeResults(e, pass.groupStores, group); });
    return next;
  }

  SmallVector<Value> start(ArrayRef<Reduction> reductions) {
    return llvm::map_to_vector(reductions, [&](Reduction reduction) {
      return reduction.start(emitter->builder(), emitter->wholeLanes());
    });
  }

  KernelSource source;
  const PassPlan plan;
  const Loops &loops = plan.loops;
  const SmallVector<Value> &results = plan.results;
  int64_t columns, rows, batches, blocks;
  std::optional<Emitter> emitter;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitGpuTiles(const KernelSource &source,
                                                 PassPlan plan) {
  return GpuTileKernel(source, std::move(plan)).emit();
}
