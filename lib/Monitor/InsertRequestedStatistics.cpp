//===- InsertRequestedStatistics.cpp - Requested statistics of a step -----===//
//
// All ops are inserted after the step's own ops. Kernels are formed from these
// as without statistics, and then statistics are fused into kernels that have
// the values.
//
//===----------------------------------------------------------------------===//

#include "ValueStatistics.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/MissingFunction.h"
#include "binade/IR/PortAttributes.h"
#include "binade/IR/Watch.h"
#include "binade/Monitor/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include <numeric>

namespace mlir::binade {
#define GEN_PASS_DEF_INSERTREQUESTEDSTATISTICSPASS
#include "binade/Monitor/Passes.h.inc"

namespace {
/// One statistic of a value, with the common period of all requests for it.
struct Wanted {
  StatisticsRequest::Wanted statistic;
  int64_t every;
};

/// The source of a request, and whether it is an error if it matches no value.
struct Origin {
  StringRef name;
  bool isRequired;
};

class Watcher {
public:
  explicit Watcher(func::FuncOp step)
      : step(step), values(collectWatchedValues(step)), wanted(values.size()),
        b(step.getLoc(), step.getContext()) {}

  LogicalResult ask(const StatisticsRequest &request, bool isRequired) {
    bool matches = !isRequired;
    for (auto [value, list] : llvm::zip(values, wanted)) {
      if (!request.matches(value.kind, value.layer, value.isRepeated))
        continue;
      matches = true;
      for (const StatisticsRequest::Wanted &statistic : request.statistics) {
        ask(list, {statistic, request.every});
        built[statistic.name] |= !isRequired;
      }
    }
    if (matches)
      return success();
    return emitError(step.getLoc(), request.where)
           << " matches no value of the step";
  }

  LogicalResult build() {
    // The ops are sorted at the end, because moving ops invalidates the order
    // of the block, which is queried while they are built.
    Operation *end = step.front().getTerminator();
    std::vector<Operation *>
        firsts; ///< The first op of each value with statistics.
    for (auto [value, list] : llvm::zip(values, wanted)) {
      Operation *before = end->getPrevNode();
      for (const Wanted &one : list)
        build(value, one);
      if (Operation *first = getNext(before); first != end)
        firsts.push_back(first);
    }
    firsts.push_back(end);
    for (size_t i = 0; i + 1 < firsts.size(); ++i)
      order(firsts[i], firsts[i + 1]);
    addResults(step, results);
    unsigned first = step.getNumResults() - results.size();
    PortAttributes attributes(step);
    for (auto [index, every] : llvm::enumerate(periods))
      attributes.setOfResult(first + index, kEveryAttr,
                             b.getI64IntegerAttr(every));
    attributes.apply();
    for (const auto &[name, isBuilt] : built)
      if (!isBuilt)
        return emitError(step.getLoc(),
                         "none of the requested values has the statistic '")
               << name << "'; 'binade list stats' describes the statistics";
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
      known->every = std::gcd(known->every, one.every);
  }

  void build(WatchedValue watched, const Wanted &one) {
    Operation *end = step.front().getTerminator();
    Operation *before = end->getPrevNode();
    b.setInsertionPoint(end);
    b.setLoc(watched.value.getLoc());
    if (const auto &codes = watched.codes)
      watched.value = watched.shown =
          DequantizeOp::create(b, codes->type, codes->parts, codes->format);
    ValueStatistics parts(b, watched);
    FloatType format = one.statistic.format;
    if (one.statistic.info->hasFormat && !format)
      format = parts.getFormat();
    Value value = one.statistic.info->build(parts, format);
    built[one.statistic.name] |= value != nullptr;
    Operation *first = getNext(before);
    Phase phase =
        one.statistic.info->isOfUpdate ? Phase::Optimizer : watched.phase;
    for (Operation *op = first; op != end; op = op->getNextNode()) {
      setPhase(op, parts.getPhaseOf(op).value_or(phase));
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

  /// Returns the op after `op`; the first op of all if that is null.
  Operation *getNext(Operation *op) {
    return op ? op->getNextNode() : &step.front().front();
  }

  /// Sorts the ops from `first` to `end`: elementwise ops, then reductions of
  /// them, then ops on the results. One kernel then reads a value for all its
  /// statistics.
  void order(Operation *first, Operation *end) {
    llvm::DenseMap<Operation *, unsigned> ranks; // Even: elements or scalars.
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
  std::vector<std::vector<Wanted>> wanted; ///< Of each value.
  ImplicitLocOpBuilder b;
  std::vector<NewResult> results;
  std::vector<int64_t> periods; ///< Of the results.
  llvm::StringMap<bool> built;
};

struct InsertRequestedStatisticsPass
    : impl::InsertRequestedStatisticsPassBase<InsertRequestedStatisticsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<std::pair<StringRef, Origin>> texts;
    auto add = [&](StringRef joined, Origin origin) {
      SmallVector<StringRef> split;
      joined.split(split, ';', -1, /*KeepEmpty=*/false);
      for (StringRef text : split)
        texts.push_back({text, origin});
    };
    add(requests, {"--stats", true});
    add(optionalRequests, {"'watch' of an alarm", false});
    if (auto ofPolicy = module->getAttrOfType<ArrayAttr>(kStatisticsAttr))
      for (StringRef text : ofPolicy.getAsValueRange<StringAttr>())
        texts.push_back({text, {"'statistics' of the policy", true}});
    if (texts.empty())
      return;
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (!step) {
      emitMissingFunction(module, kStepName, "to watch");
      return signalPassFailure();
    }
    Watcher watcher(step);
    for (auto [text, origin] : texts) {
      auto request = parseStatisticsRequest(text, getContext(), origin.name);
      if (!request) {
        emitError(module.getLoc(),
                  request.error().where + ": " + request.error().message);
        return signalPassFailure();
      }
      if (failed(watcher.ask(*request, origin.isRequired)))
        return signalPassFailure();
    }
    if (failed(watcher.build()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
