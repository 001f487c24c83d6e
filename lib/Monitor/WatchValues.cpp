//===- WatchValues.cpp - Compute the statistics that are asked for --------===//
//
// Everything stands behind the step's own ops: kernels are formed of these as
// if nobody looked, and then take in what reads their values.
//
//===----------------------------------------------------------------------===//

#include "ValueStatistics.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Watch.h"
#include "binade/Monitor/Passes.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::binade {
#define GEN_PASS_DEF_WATCHVALUESPASS
#include "binade/Monitor/Passes.h.inc"

namespace {
/// One statistic of a value; of equal requests the one for most steps holds.
struct Wanted {
  StatisticsRequest::Wanted statistic;
  int64_t every;
};

class Watcher {
public:
  explicit Watcher(func::FuncOp step)
      : step(step), values(collectWatchedValues(step)), wanted(values.size()),
        b(step.getLoc(), step.getContext()) {}

  LogicalResult ask(const StatisticsRequest &request) {
    bool matches = false;
    for (auto [value, list] : llvm::zip(values, wanted)) {
      if (!request.matches(value.kind, value.layer))
        continue;
      matches = true;
      for (const StatisticsRequest::Wanted &statistic : request.statistics)
        ask(list, {statistic, request.every});
    }
    if (matches)
      return success();
    return emitError(step.getLoc(), request.where)
           << " matches no value of the step";
  }

  LogicalResult build() {
    for (auto [value, list] : llvm::zip(values, wanted)) {
      Operation *last = step.front().getTerminator()->getPrevNode();
      for (const Wanted &one : list)
        build(value, one);
      order(last ? last->getNextNode() : &step.front().front());
    }
    addResults(step, results);
    unsigned first = step.getNumResults() - results.size();
    for (auto [index, every] : llvm::enumerate(periods))
      step.setResultAttr(first + index, kEveryAttr, b.getI64IntegerAttr(every));
    for (const auto &[name, isBuilt] : built)
      if (!isBuilt)
        return emitError(step.getLoc(),
                         "no value that is asked for has a statistic '")
               << name << "'; 'binade list stats' says which have";
    return success();
  }

private:
  static void ask(std::vector<Wanted> &list, Wanted one) {
    auto known = llvm::find_if(list, [&](const Wanted &other) {
      return other.statistic.name == one.statistic.name;
    });
    if (known == list.end())
      list.push_back(std::move(one));
    else
      known->every = std::min(known->every, one.every);
  }

  void build(const WatchedValue &watched, const Wanted &one) {
    Operation *end = step.front().getTerminator();
    Operation *before = end->getPrevNode();
    b.setInsertionPoint(end);
    b.setLoc(watched.value.getLoc());
    ValueStatistics parts(b, watched);
    FloatType format = one.statistic.format;
    if (one.statistic.info->hasFormat && !format)
      format = parts.getFormat();
    Value value = one.statistic.info->build(parts, format);
    built[one.statistic.name] |= value != nullptr;
    Operation *first = before ? before->getNextNode() : &step.front().front();
    Phase phase =
        one.statistic.info->isOfUpdate ? Phase::Optimizer : watched.phase;
    for (Operation *op = first; op != end; op = op->getNextNode()) {
      setPhase(op, phase);
      op->setAttr(kEveryAttr, b.getI64IntegerAttr(one.every));
    }
    if (!value)
      return;
    results.push_back({Role::Statistic,
                       (getName(watched.kind) + "/" + watched.layer + "/" +
                        one.statistic.name)
                           .str(),
                       value});
    periods.push_back(one.every);
  }

  /// Of the ops from `first` on: elements, then what is reduced of them, then
  /// what is made of that. So one kernel reads a value for all its statistics.
  void order(Operation *first) {
    Operation *end = step.front().getTerminator();
    llvm::DenseMap<Operation *, unsigned> ranks; // Even: elements or numbers.
    SmallVector<Operation *> ops;
    for (Operation *op = first; op != end; op = op->getNextNode()) {
      unsigned rank = 0;
      for (Value operand : op->getOperands())
        rank = std::max(rank, ranks.lookup(operand.getDefiningOp()));
      bool reduces = isa<ReduceSumOp, ReduceMaxOp, StatisticsOp>(op);
      ranks[op] = (rank + 1) / 2 * 2 + reduces;
      ops.push_back(op);
    }
    llvm::stable_sort(ops, [&](Operation *l, Operation *r) {
      return ranks.lookup(l) < ranks.lookup(r);
    });
    for (Operation *op : ops)
      op->moveBefore(end);
  }

  func::FuncOp step;
  std::vector<WatchedValue> values;
  std::vector<std::vector<Wanted>> wanted; ///< Of each.
  ImplicitLocOpBuilder b;
  std::vector<NewResult> results;
  std::vector<int64_t> periods; ///< Of the results.
  llvm::StringMap<bool> built;
};

struct WatchValuesPass : impl::WatchValuesPassBase<WatchValuesPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<StringRef> texts;
    StringRef(requests).split(texts, ';', -1, /*KeepEmpty=*/false);
    size_t ofUser = texts.size();
    if (auto ofPolicy = module->getAttrOfType<ArrayAttr>(kStatisticsAttr))
      llvm::append_range(texts, ofPolicy.getAsValueRange<StringAttr>());
    if (texts.empty())
      return;
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (!step) {
      module.emitError("expected a function '@step' to watch");
      return signalPassFailure();
    }
    Watcher watcher(step);
    for (auto [index, text] : llvm::enumerate(texts)) {
      auto request = parseStatisticsRequest(
          text, getContext(),
          index < ofUser ? "--stats" : "'statistics' of the policy");
      if (!request) {
        emitError(module.getLoc(),
                  request.error().where + ": " + request.error().message);
        return signalPassFailure();
      }
      if (failed(watcher.ask(*request)))
        return signalPassFailure();
    }
    if (failed(watcher.build()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
