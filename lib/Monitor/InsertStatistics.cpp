//===- InsertStatistics.cpp - Statistics of all values of a step ----------===//

#include "binade/IR/AddPorts.h"
#include "binade/IR/MissingFunction.h"
#include "binade/IR/Names.h"
#include "binade/Monitor/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_INSERTSTATISTICSPASS
#include "binade/Monitor/Passes.h.inc"

static void insert(func::FuncOp step, Statistic members) {
  OpBuilder b(step.getContext());
  SmallVector<NewResult> results;
  for (const NamedValue &named : nameValues(step)) {
    b.setInsertionPointAfterValue(named.value);
    auto op =
        StatisticsOp::create(b, named.value.getLoc(), members, named.value);
    if (Operation *producer = named.value.getDefiningOp())
      setPhase(op, getPhase(producer));
    for (auto [member, value] : llvm::zip(op.getMembers(), op.getValues()))
      results.push_back({Role::Statistic,
                         (stringifyStatistic(member) + " " + named.name),
                         value});
  }
  addResults(step, results);
}

namespace {
struct InsertStatisticsPass
    : impl::InsertStatisticsPassBase<InsertStatisticsPass> {
  using Base::Base;

  void runOnOperation() override {
    if (statistics.empty())
      return;
    ModuleOp module = getOperation();
    auto members = symbolizeStatistic(statistics);
    if (!members) {
      module.emitError("expected statistics such as 'amax|zeros', got '")
          << statistics << "'";
      return signalPassFailure();
    }
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (!step) {
      emitMissingFunction(module, kStepName, "to watch");
      return signalPassFailure();
    }
    insert(step, *members);
  }
};
} // namespace
} // namespace mlir::binade
