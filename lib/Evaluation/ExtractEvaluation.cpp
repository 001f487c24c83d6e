//===- ExtractEvaluation.cpp - The loss alone, as a model is evaluated ----===//

#include "binade/Evaluation/Passes.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::binade {
#define GEN_PASS_DEF_EXTRACTEVALUATIONPASS
#include "binade/Evaluation/Passes.h.inc"

/// The running estimate of `statistic`: the buffer that the forward part mixes
/// it into. Null where there is none.
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
      // What has the statistic's shape is still about channels.
      for (Value made : user->getResults())
        if (succeeded(
                verifyCompatibleShape(made.getType(), statistic.getType())))
          worklist.push_back(made);
    }
  }
  return {};
}

/// Puts what evaluation does in place of what training alone does.
static void leaveTraining(func::FuncOp function) {
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

/// Leaves of `function` what makes result `index`, which is its only one then.
static void keepResult(func::FuncOp function, unsigned index) {
  Operation *terminator = function.front().getTerminator();
  BitVector others(function.getNumResults(), true);
  others.reset(index);
  terminator->setOperands({terminator->getOperand(index)});
  (void)function.eraseResults(others);
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
  (void)function.eraseArguments(unused);
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
    func::FuncOp function = step.clone();
    function.setName(kEvaluationName);
    module.insert(std::next(step->getIterator()), function);
    leaveTraining(function);
    keepResult(function, loss->index);
    function.setResultAttr(0, kNameAttr,
                           StringAttr::get(&getContext(), "eval_loss"));
    // The step's own memory begins with these values.
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
      function.removeArgAttr(i, kInitAttr);
  }
};
} // namespace
} // namespace mlir::binade
