//===- ExtractEvaluation.cpp - Extract the program `evaluate` -------------===//

#include "Results.h"
#include "binade/IR/Build.h"
#include "binade/IR/Rules.h"
#include "binade/Programs/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_EXTRACTEVALUATIONPASS
#include "binade/Programs/Passes.h.inc"

/// Returns the running estimate of `statistic`: the buffer that the forward
/// pass updates with it. Null if there is none.
static Value findRunning(func::FuncOp function, Value statistic) {
  SmallVector<Value> worklist = {statistic};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user)) {
        std::optional<Port> result =
            getResult(function, use.getOperandNumber());
        if (!result || result->role != Role::Buffer)
          continue;
        if (auto kept = findArgument(function, Role::Buffer, result->name))
          return function.getArgument(kept->index);
      }
      // A value of the same shape still has one element per channel.
      for (Value made : user->getResults())
        if (succeeded(
                verifyCompatibleShape(made.getType(), statistic.getType())))
          worklist.push_back(made);
    }
  }
  return {};
}

/// Replaces ops that behave differently in training by their evaluation.
static void replaceTrainingOps(func::FuncOp function) {
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  auto getRunning = [&](Value statistic) {
    return findRunning(function, statistic);
  };
  SmallVector<TrainingOpInterface> ops(
      function.front().getOps<TrainingOpInterface>());
  for (TrainingOpInterface op : ops) {
    b.setInsertionPoint(op);
    b.setLoc(op.getLoc());
    SmallVector<Value> values = op.buildEvaluation(b, getRunning);
    for (auto [result, value] : llvm::zip(op->getResults(), values)) {
      if (value == result)
        continue;
      if (value.getType() != result.getType())
        value = CastOp::create(b, result.getType(), value);
      result.replaceAllUsesWith(value);
    }
  }
}

/// Replaces parameters by the weights for evaluation, where the rule that
/// updates them has others.
static void replaceParameters(func::FuncOp function) {
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  for (auto update : function.front().getOps<OptimizerUpdateOp>()) {
    auto rule = SymbolTable::lookupNearestSymbolFrom<OptimizerOp>(
        update, update.getOptimizerAttr());
    std::optional<unsigned> offset = findEvaluationOffset(rule);
    if (!offset)
      continue;
    b.setInsertionPointToStart(&function.front());
    b.setLoc(update.getLoc());
    Value parameter = update.getParameter();
    SmallPtrSet<Operation *, 8> readers(parameter.getUsers().begin(),
                                        parameter.getUsers().end());
    unsigned first = update.getKeptStates()[*offset].first;
    Value weight =
        AddOp::create(b, buildWideParameter(b, update),
                      buildCast(b, update.getStates()[first], b.getF32Type()));
    weight = buildCast(b, weight, getElementTypeOrSelf(parameter));
    parameter.replaceUsesWithIf(weight, [&](OpOperand &use) {
      return readers.contains(use.getOwner());
    });
  }
}

namespace {
struct ExtractEvaluationPass
    : impl::ExtractEvaluationPassBase<ExtractEvaluationPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (!step || module.lookupSymbol(kEvaluationName))
      return;
    std::optional<Port> loss = findResult(step, Role::Metric, "loss");
    if (!loss)
      return;
    IRMapping mapping;
    func::FuncOp function = copyStep(step, kEvaluationName, mapping);
    replaceParameters(function);
    replaceTrainingOps(function);
    replaceResults(function, {{Role::Metric, "eval_loss",
                               getResultValue(function, loss->index)}});
  }
};
} // namespace
} // namespace mlir::binade
