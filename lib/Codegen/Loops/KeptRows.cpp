//===- KeptRows.cpp - Row reductions on GPUs with rows in registers -------===//
//
// A thread has a few vectors of a row, whose loads and arithmetic are emitted
// one after the other without loops. What a pass has computed is available in
// the next ones, so that a row is read from memory once.
//
//===----------------------------------------------------------------------===//

#include "PassPlan.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Emits a kernel of rows in registers.
class KeptRowKernel {
public:
  KeptRowKernel(const KernelSource &source, PassPlan plan)
      : source(source), plan(std::move(plan)) {}

  FailureOr<KernelInfo> emit() {
    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = loops.getKept();
    setBatchGrain(info, plan.shape);
    info.hasStatus = source.hasIndices();
    info.workspaceBytes = info.hasStatus ? kStatusBytes : 0;
    emitter.emplace(
        source.function, source.formulas, source.into, source.symbol + ".items",
        TypeRange(source.getBuffers(info.workspaceBytes)), 2, plan.shape);
    int64_t blocks = plan.residentThreads / plan.shape->threads;
    emitter->function()->setAttr(kResidentBlocksAttr,
                                 emitter->builder().getI32IntegerAttr(blocks));
    emitter->forItems(info.extent, [&](const Offset &row) { emitRow(row); });
    setInPlace(*emitter, info);
    if (failed(emitter->status()))
      return failure();
    return info;
  }

private:
  void emitRow(const Offset &row) {
    Emitter &e = *emitter;
    vectors = e.splitRow(Offset(), loops.getColumns());
    for (const ElementPass &pass : plan.passes)
      emitPass(pass, row);
    SmallVector<unsigned> ofRows, others;
    for (auto [index, result] : llvm::enumerate(results))
      if (plan.isPerKept(result))
        ofRows.push_back(index);
      else if (!plan.isFull(result) && !plan.isPerGroup(result))
        others.push_back(index);
    e.setPlaces(std::nullopt, row);
    storeResults(e, ofRows, row);
    emitSmallResults(e, others, row);
  }

  void emitPass(const ElementPass &pass, const Offset &row) {
    Emitter &e = *emitter;
    // All loads precede arithmetic and stores, so that they are in flight at
    // the same time.
    forVectors(row, [&](const Offset &offset, Value) {
      DenseSet<Value> seen;
      for (const Step &step : pass.steps)
        plan.loadOperands(e, step, offset, seen);
    });
    SmallVector<Reduction> reductions = pass.getReductions();
    SmallVector<Value> partials =
        llvm::map_to_vector(reductions, [&](Reduction reduction) {
          return reduction.start(e.builder(), e.wholeLanes());
        });
    forVectors(row, [&](const Offset &offset, Value exists) {
      SmallVector<Value> next = emitSteps(pass, offset, partials);
      for (auto [partial, value] : llvm::zip(partials, next))
        partial = exists ? arith::SelectOp::create(e.builder(), exists, value,
                                                   partial)
                               .getResult()
                         : value;
    });
    for (auto [reduction, partial] : llvm::zip(reductions, partials))
      reduction.define(e, reduction.finish(e, partial), row);
  }

  /// Emits all steps over the vector at `offset`, and returns the next partial
  /// results.
  SmallVector<Value> emitSteps(const ElementPass &pass, const Offset &offset,
                               ArrayRef<Value> partials) {
    Emitter &e = *emitter;
    SmallVector<Value> next;
    Offset group;
    if (plan.group > 0)
      group = e.offsets().divide(offset, plan.group).quotient;
    for (const Step &step : pass.steps) {
      for (Reduction reduction : step.reductions)
        next.push_back(reduction.accumulate(e, partials[next.size()], offset));
      for (Reduction reduction : step.groups) {
        Value lanes = e.pullLanes(reduction.getInput(), offset);
        e.withinGroup(plan.group, [&] {
          reduction.define(e, reduction.finish(e, lanes), group);
        });
      }
      storeResults(e, step.stores, offset);
    }
    if (!pass.groupStores.empty())
      e.withinGroup(plan.group,
                    [&] { storeResults(e, pass.groupStores, group); });
    return next;
  }

  void forVectors(const Offset &row,
                  llvm::function_ref<void(const Offset &, Value)> body) {
    Emitter &e = *emitter;
    for (const RowVector &vector : vectors) {
      Offset offset =
          loops.getOffset(e.offsets(), row, Offset(), vector.column);
      e.setPlaces(offset, row);
      e.forVector(vector, [&] { body(offset, vector.exists); });
    }
    e.nextPass();
  }

  const KernelSource source;
  const PassPlan plan;
  const Loops &loops = plan.loops;
  const SmallVector<Value> &results = plan.results;
  SmallVector<RowVector> vectors;
  std::optional<Emitter> emitter;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitKeptRows(const KernelSource &source,
                                                 PassPlan plan) {
  return KeptRowKernel(source, std::move(plan)).emit();
}
