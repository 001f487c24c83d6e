//===- KeptRows.cpp - Row reductions on GPUs with rows in registers -------===//
//
// A thread has a few vectors of a row, whose loads and arithmetic are emitted
// one after the other without loops. What a pass has computed is available in
// the next ones, so that a row is read from memory once. If the kernel also
// reduces columns, threads process several rows and keep the partial results.
//
//===----------------------------------------------------------------------===//

#include "ColumnSums.h"
#include "PassPlan.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Emits a kernel of rows in registers.
class KeptRowKernel {
public:
  KeptRowKernel(const KernelSource &source, PassPlan plan)
      : source(source), plan(std::move(plan)),
        sums(this->plan.columnSums, loops.getKept(), loops.getColumns(),
             this->plan.shape->down) {}

  FailureOr<KernelInfo> emit() {
    KernelInfo info;
    info.symbol = source.symbol;
    info.hasFinish = !sums.get().empty();
    info.extent = info.hasFinish ? sums.countBlocks() : loops.getKept();
    setBatchGrain(info, plan.shape);
    info.hasStatus = source.hasIndices();
    if (info.hasStatus || info.hasFinish)
      info.workspaceBytes = kStatusBytes + sums.getWorkspaceBytes();
    SmallVector<Type> buffers = source.getBuffers(info.workspaceBytes);
    emitter.emplace(source.function, source.formulas, source.into,
                    source.symbol + ".items", TypeRange(buffers), 2,
                    plan.shape);
    int64_t blocks = plan.residentThreads / plan.shape->threads;
    emitter->function()->setAttr(kResidentBlocksAttr,
                                 emitter->builder().getI32IntegerAttr(blocks));
    emitter->forItems(info.extent, [&](const Offset &item) {
      if (info.hasFinish)
        emitRows(item);
      else
        emitRow(item);
      emitSmallResults(*emitter, getOthers(), item);
    });
    std::optional<Emitter> finish;
    if (info.hasFinish) {
      finish.emplace(source.function, source.formulas, source.into,
                     source.symbol + ".finish", TypeRange(buffers), 1,
                     getFinishShape(*source.shape, loops.getColumns()));
      sums.emitFinish(*finish, source, getOfColumns());
    }
    setInPlace(*emitter, info, finish ? &*finish : nullptr);
    if (failed(emitter->status()) || (finish && failed(finish->status())))
      return failure();
    return info;
  }

private:
  SmallVector<unsigned> getOfColumns() const {
    SmallVector<unsigned> found;
    for (auto [index, result] : llvm::enumerate(results))
      if (plan.ofColumnSums.contains(result))
        found.push_back(index);
    return found;
  }
  SmallVector<unsigned> getOthers() const {
    SmallVector<unsigned> found;
    for (auto [index, result] : llvm::enumerate(results))
      if (!plan.isFull(result) && !plan.isPerKept(result) &&
          !plan.isPerGroup(result) && !plan.ofColumnSums.contains(result))
        found.push_back(index);
    return found;
  }

  /// Emits a block of rows, and stores its partial results of columns.
  void emitRows(const Offset &block) {
    Emitter &e = *emitter;
    ImplicitLocOpBuilder &b = e.builder();
    int64_t columns = loops.getColumns(), rows = loops.getKept();
    int64_t step = plan.shape->team * plan.shape->lanes;
    Value begin = e.number(block * sums.getRowsPerBlock());
    Value end =
        arith::AddIOp::create(b, begin, e.index(sums.getRowsPerBlock()));
    if (rows % sums.getRowsPerBlock() != 0)
      end = arith::MinUIOp::create(b, end, e.index(rows));
    SmallVector<Value> partials;
    for (Reduction reduction : sums.get())
      partials.append(llvm::divideCeil(columns, step),
                      reduction.start(b, e.wholeLanes()));
    partials = e.rows(begin, end, rows, partials,
                      [&](const Offset &row, ValueRange now) {
                        ofColumns.assign(now.begin(), now.end());
                        emitRow(row);
                        return ofColumns;
                      });
    for (auto [index, partial] : llvm::enumerate(partials)) {
      int64_t perSum = partials.size() / sums.get().size();
      int64_t first = static_cast<int64_t>(index) % perSum * step;
      e.ownColumns(e.index(first), columns, /*group=*/0,
                   [&, index = index / perSum](const Offset &column) {
                     sums.store(e, index, partial, block, column);
                   });
    }
  }

  void emitRow(const Offset &row) {
    Emitter &e = *emitter;
    vectors = e.splitRow(Offset(), loops.getColumns());
    for (const ElementPass &pass : plan.passes)
      emitPass(pass, row);
    SmallVector<unsigned> ofRows;
    for (auto [index, result] : llvm::enumerate(results))
      if (plan.isPerKept(result))
        ofRows.push_back(index);
    e.setPlaces(std::nullopt, row);
    storeResults(e, ofRows, row);
  }

  void emitPass(const ElementPass &pass, const Offset &row) {
    Emitter &e = *emitter;
    SmallVector<Reduction> reductions = pass.getReductions();
    SmallVector<Value> partials =
        llvm::map_to_vector(reductions, [&](Reduction reduction) {
          return reduction.start(e.builder(),
                                 reduction.countPartials(e.wholeLanes()));
        });
    int64_t count = vectors.size();
    for (int64_t first = 0; first < count; first += plan.vectorsInFlight)
      emitVectors(pass, row, first,
                  std::min(first + plan.vectorsInFlight, count), partials);
    e.nextPass();
    for (auto [reduction, partial] : llvm::zip(reductions, partials))
      reduction.define(e, reduction.finish(e, partial), row);
  }

  /// Emits the steps of a pass over the vectors from `first` on. All loads
  /// precede arithmetic and stores, so that they are in flight at the same
  /// time.
  void emitVectors(const ElementPass &pass, const Offset &row, int64_t first,
                   int64_t end, MutableArrayRef<Value> partials) {
    Emitter &e = *emitter;
    forVectors(row, first, end, [&](const Offset &offset, int64_t) {
      DenseSet<Value> seen;
      for (const Step &step : pass.steps)
        plan.loadOperands(e, step, offset, seen);
    });
    forVectors(row, first, end, [&](const Offset &offset, int64_t number) {
      Value exists = vectors[number].exists;
      auto update = [&](Value &partial, Value next) {
        partial =
            exists ? arith::SelectOp::create(e.builder(), exists, next, partial)
                         .getResult()
                   : next;
      };
      SmallVector<Value> next = emitSteps(pass, offset, partials);
      for (auto [partial, value] : llvm::zip(partials, next))
        update(partial, value);
      for (const Step &step : pass.steps)
        for (Reduction reduction : step.columns) {
          Value &partial = getColumnSum(reduction, number);
          update(partial, reduction.accumulate(e, partial, offset));
        }
    });
  }

  /// Returns the partial results of the columns of a vector.
  Value &getColumnSum(Reduction reduction, size_t vector) {
    auto *found = llvm::find_if(
        sums.get(), [&](Reduction sum) { return sum.op == reduction.op; });
    return ofColumns[(found - sums.get().begin()) * vectors.size() + vector];
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

  void forVectors(const Offset &row, int64_t first, int64_t end,
                  llvm::function_ref<void(const Offset &, int64_t)> body) {
    Emitter &e = *emitter;
    for (int64_t number = first; number < end; ++number) {
      Offset offset =
          loops.getOffset(e.offsets(), row, Offset(), vectors[number].column);
      e.setPlaces(offset, row);
      e.forVector(vectors[number], [&] { body(offset, number); });
    }
  }

  const KernelSource source;
  const PassPlan plan;
  const Loops &loops = plan.loops;
  const SmallVector<Value> &results = plan.results;
  const ColumnSums sums;
  SmallVector<RowVector> vectors;
  SmallVector<Value> ofColumns; ///< Partial results, for each sum and vector.
  std::optional<Emitter> emitter;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitKeptRows(const KernelSource &source,
                                                 PassPlan plan) {
  return KeptRowKernel(source, std::move(plan)).emit();
}
