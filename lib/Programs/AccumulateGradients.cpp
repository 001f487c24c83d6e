//===- AccumulateGradients.cpp - Sum gradients of several batches ---------===//

#include "Results.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/Programs/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::binade {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTSPASS
#include "binade/Programs/Passes.h.inc"

namespace {
class Accumulator {
public:
  Accumulator(func::FuncOp step, int64_t batches)
      : step(step), batches(batches), b(step.getLoc(), step.getContext()) {}

  LogicalResult run() {
    if (failed(collect()))
      return failure();
    addAccumulators();
    for (auto &[gradient, sum] : sums)
      addUp(gradient, sum);
    replaceGradientResults();
    step.walk([&](UnscaleFactorOp op) { op.setBatches(batches); });
    extract();
    return success();
  }

private:
  /// The sum of one gradient over the batches of a step.
  struct Sum {
    std::string name; ///< The name of the first parameter with this gradient.
    RankedTensorType type; ///< The type in which it is stored.
    Value before, after;   ///< Before and after this batch; `after` is f32.
    Value kept;            ///< `after` in the storage type.
  };

  LogicalResult collect() {
    WalkResult walked = step.walk([&](OptimizerUpdateOp op) {
      auto argument = dyn_cast<BlockArgument>(op.getParameter());
      std::optional<Port> port =
          argument ? getArgument(step, argument.getArgNumber()) : std::nullopt;
      if (!port) {
        op.emitOpError("updates a value that is not a parameter of '@step', so "
                       "its gradients cannot be accumulated");
        return WalkResult::interrupt();
      }
      auto storage = op.getStorageAttr();
      FloatType format = storage ? storage.getAccumulator() : FloatType();
      auto type = cast<RankedTensorType>(op.getGradient().getType())
                      .clone(format ? format : b.getF32Type());
      parameters[port->name] = op.getGradient();
      sums.insert({op.getGradient(), {port->name.str(), type, {}, {}, {}}});
      return WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  void addAccumulators() {
    SmallVector<NewArgument> arguments;
    for (auto &[gradient, sum] : sums)
      arguments.push_back(
          {sum.name, sum.type, gradient.getLoc(), b.getZeroAttr(sum.type)});
    SmallVector<Value> values =
        addArguments(step, Role::Accumulator, arguments);
    for (auto [entry, value] : llvm::zip(sums, values))
      entry.second.before = value;
  }

  /// Adds the gradient to its sum right after its producer, and replaces it by
  /// the sum in the optimizer.
  void addUp(Value gradient, Sum &sum) {
    b.setInsertionPointAfterValue(gradient);
    b.setLoc(gradient.getLoc());
    Operation *begin = b.getInsertionPoint()->getPrevNode();
    Operation *end = &*b.getInsertionPoint();
    Value before = buildCast(b, sum.before, b.getF32Type());
    Value own = buildCast(b, gradient, b.getF32Type());
    sum.after = AddOp::create(b, before, own);
    sum.kept = buildCast(b, sum.after, sum.type.getElementType());
    for (Operation *op = begin ? begin->getNextNode()
                               : &gradient.getParentBlock()->front();
         op != end; op = op->getNextNode())
      setPhase(op, Phase::Backward);
    gradient.replaceUsesWithIf(sum.after, [](OpOperand &use) {
      return getPhase(use.getOwner()) == Phase::Optimizer;
    });
  }

  void replaceGradientResults() {
    for (const Port &port : getResults(step, Role::Gradient))
      if (Value gradient = parameters.lookup(port.name))
        setResult(step, port.index, sums[gradient].after);
    step.setType(
        b.getFunctionType(step.front().getArgumentTypes(),
                          step.front().getTerminator()->getOperandTypes()));
  }

  /// Adds the program for all but the last batch of a step. It returns the sums
  /// and the states that the forward pass updates.
  void extract() {
    IRMapping mapping;
    func::FuncOp function = copyStep(step, kAccumulationName, mapping);
    SmallVector<NewResult> results;
    for (auto &[gradient, sum] : sums)
      results.push_back(
          {Role::Accumulator, sum.name, mapping.lookup(sum.kept)});
    makeAccumulation(function, std::move(results), batches);
  }

  func::FuncOp step;
  int64_t batches;
  ImplicitLocOpBuilder b;
  llvm::MapVector<Value, Sum> sums; ///< By gradient; tied parameters share one.
  llvm::StringMap<Value> parameters; ///< The gradient of each parameter.
};

struct AccumulateGradientsPass
    : impl::AccumulateGradientsPassBase<AccumulateGradientsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<func::FuncOp> step =
        findStepToAccumulate(getOperation(), batches);
    if (failed(step) || (*step && failed(accumulateGradients(*step, batches))))
      signalPassFailure();
  }
};
} // namespace

LogicalResult accumulateGradients(func::FuncOp step, int64_t batches) {
  return Accumulator(step, batches).run();
}
} // namespace mlir::binade
