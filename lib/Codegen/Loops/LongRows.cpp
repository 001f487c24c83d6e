//===- LongRows.cpp - Row reductions on GPUs with long rows ---------------===//
//
// A row that registers cannot keep is read in chunks of a few vectors per
// thread, once in each pass. Sums of exponentials do not need a pass of their
// own (OnlineSum.h).
//
//===----------------------------------------------------------------------===//

#include "OnlineSum.h"
#include "PassPlan.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Emits a kernel of rows in chunks.
class LongRowKernel {
public:
  LongRowKernel(const KernelSource &source, PassPlan plan)
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
    for (const ElementPass &pass : plan.passes)
      emitPass(pass.steps.front(), row);
    SmallVector<unsigned> ofRows, others;
    for (auto [index, result] : llvm::enumerate(results))
      if (plan.isPerKept(result))
        ofRows.push_back(index);
      else if (!plan.isFull(result))
        others.push_back(index);
    e.setPlaces(std::nullopt, row);
    storeResults(e, ofRows, row);
    emitSmallResults(e, others, row);
  }

  /// Carried through the chunks are the partial results of all reductions, then
  /// the reference of each online sum.
  void emitPass(const Step &step, const Offset &row) {
    Emitter &e = *emitter;
    SmallVector<Value> carried;
    for (Reduction reduction : step.reductions)
      carried.push_back(reduction.start(e.builder(), e.wholeLanes()));
    for (Reduction reduction : step.reductions)
      if (std::optional<OnlineSum> online = plan.findOnlineSum(reduction))
        carried.push_back(online->start(e));
    int64_t size = plan.vectorsInFlight * plan.shape->team * e.wholeLanes();
    int64_t count = loops.getColumns() / size, whole = count * size;
    if (count > 0)
      carried = e.loop(e.index(0), e.index(whole), size, carried,
                       [&](Value column, ValueRange now) {
                         Offset begin = e.offsets().counter(column, count,
                                                            e.depth(), size);
                         return emitChunk(step, row, begin * size, size, now);
                       });
    if (whole < loops.getColumns())
      carried = emitChunk(step, row, Offset(whole), loops.getColumns() - whole,
                          carried);
    e.nextPass();
    finish(step, row, carried);
  }

  /// Emits the chunk of `size` columns from `begin` on: all loads, the
  /// reductions, and the stores. Returns the next carried values.
  SmallVector<Value> emitChunk(const Step &step, const Offset &row,
                               const Offset &begin, int64_t size,
                               ValueRange carried) {
    Emitter &e = *emitter;
    SmallVector<RowVector> vectors = e.splitRow(begin, size);
    SmallVector<Value> next(carried);
    auto forVectors =
        [&](llvm::function_ref<void(const Offset &, Value)> body) {
          for (const RowVector &vector : vectors) {
            Offset offset =
                loops.getOffset(e.offsets(), row, Offset(), vector.column);
            e.setPlaces(offset, row);
            e.forVector(vector, [&] { body(offset, vector.exists); });
          }
        };
    forVectors([&](const Offset &offset, Value) {
      DenseSet<Value> seen;
      plan.loadOperands(e, step, offset, seen);
    });
    forVectors([&](const Offset &offset, Value exists) {
      for (auto [reduction, partial] : llvm::zip(step.reductions, next))
        if (!plan.findOnlineSum(reduction)) {
          Value more = reduction.accumulate(e, partial, offset);
          partial = exists ? selectLanes(exists, more, partial) : more;
        }
      storeResults(e, step.stores, offset);
    });
    Value *reference = next.begin() + step.reductions.size();
    for (auto [index, reduction] : llvm::enumerate(step.reductions)) {
      std::optional<OnlineSum> online = plan.findOnlineSum(reduction);
      if (!online)
        continue;
      SmallVector<Value> x;
      forVectors([&](const Offset &offset, Value exists) {
        Value lanes = e.pullLanes(online->maximum.getInput(), offset);
        Value nothing = online->maximum.start(e.builder(), e.wholeLanes());
        x.push_back(exists ? selectLanes(exists, lanes, nothing) : lanes);
      });
      e.perThread(e.wholeLanes(), [&] {
        OnlineSum::Partial partial =
            online->accumulate(e, {next[index], *reference},
                               next[getIndex(step, online->maximum)], x);
        next[index] = partial.sums;
        *reference++ = partial.reference;
      });
    }
    return next;
  }

  /// Defines the results of the reductions of `step`, maxima before the sums
  /// that depend on them.
  void finish(const Step &step, const Offset &row, ArrayRef<Value> carried) {
    Emitter &e = *emitter;
    ArrayRef<Value> references = carried.drop_front(step.reductions.size());
    for (auto [reduction, partial] : llvm::zip(step.reductions, carried)) {
      Value total;
      if (std::optional<OnlineSum> online = plan.findOnlineSum(reduction)) {
        Value maximum = e.pull(online->maximum.getResult(), row).value;
        total = online->finish(e, {partial, references.front()}, maximum);
        references = references.drop_front();
      } else {
        total = reduction.finish(e, partial);
      }
      reduction.define(e, total, row);
    }
  }

  Value selectLanes(Value condition, Value x, Value y) {
    return arith::SelectOp::create(emitter->builder(), condition, x, y);
  }

  static unsigned getIndex(const Step &step, Reduction reduction) {
    return llvm::find_if(step.reductions,
                         [&](Reduction r) { return r.op == reduction.op; }) -
           step.reductions.begin();
  }

  const KernelSource source;
  const PassPlan plan;
  const Loops &loops = plan.loops;
  const SmallVector<Value> &results = plan.results;
  std::optional<Emitter> emitter;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitLongRows(const KernelSource &source,
                                                 PassPlan plan) {
  return LongRowKernel(source, std::move(plan)).emit();
}
