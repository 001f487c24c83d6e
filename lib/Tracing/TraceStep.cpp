//===- TraceStep.cpp - Trace of a step ------------------------------------===//

#include "FindRootCause.h"
#include "OpKeys.h"
#include "TraceErrors.h"

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// The two steps
//===----------------------------------------------------------------------===//

OwningOpRef<ModuleOp> mlir::binade::makeUnroundedCopy(ModuleOp module) {
  OwningOpRef<ModuleOp> exactModule(module.clone());
  exactModule->walk([](Operation *op) {
    if (auto decided = dyn_cast<PrecisionOpInterface>(op))
      decided.setPrecisionAttr(nullptr);
    if (auto update = dyn_cast<OptimizerUpdateOp>(op))
      update.removeStorageAttr();
  });
  return exactModule;
}

std::map<std::string, RankedTensorType>
mlir::binade::getStepInputs(ModuleOp module) {
  std::map<std::string, RankedTensorType> types;
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  for (auto [index, type] : llvm::enumerate(step.getArgumentTypes()))
    if (auto port = getArgument(step, index))
      types[nameInput(*port)] = cast<RankedTensorType>(type);
  return types;
}

/// Returns `tensor` with type `type` if that differs only in the floating-point
/// format, else unchanged.
static TensorRef retype(TensorRef tensor, RankedTensorType type) {
  if (tensor->getType() == type || tensor->getShape() != type.getShape() ||
      !tensor->isFloat() || !isa<FloatType>(type.getElementType()))
    return tensor;
  Tensor other(type);
  llvm::copy(tensor->getFloats(), other.getFloats().begin());
  return std::make_shared<Tensor>(std::move(other));
}

/// Returns `inputs` under the evaluator's names of the arguments. A missing
/// loss scale is left to its initial value.
static FailureOr<NamedTensors> takeInputs(func::FuncOp step,
                                          const NamedTensors &inputs) {
  NamedTensors taken;
  for (auto [index, name] : llvm::enumerate(getArgumentNames(step))) {
    auto port = getArgument(step, index);
    auto found = port ? inputs.find(nameInput(*port)) : inputs.end();
    auto type = cast<RankedTensorType>(step.getArgumentTypes()[index]);
    if (found != inputs.end())
      taken[name] = retype(found->second, type);
    else if (!port || port->role != Role::Scaler)
      return step.emitError("the step reads '")
             << (port ? nameInput(*port) : name)
             << "', which is missing in the inputs";
  }
  return taken;
}

static FailureOr<double> evaluateLoss(ModuleOp module,
                                      const NamedTensors &inputs,
                                      const EvaluationOptions &options) {
  FailureOr<Outputs> outputs = evaluate(module, kStepName, inputs, options);
  if (failed(outputs))
    return failure();
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  std::optional<Port> loss = findResult(step, Role::Metric, "loss");
  if (!loss)
    return step.emitError("the step has no loss");
  return (*outputs->values.at(getResultNames(step)[loss->index]))[0];
}

//===----------------------------------------------------------------------===//
// traceStep
//===----------------------------------------------------------------------===//

FailureOr<StepTrace> mlir::binade::traceStep(ModuleOp module, ModuleOp exact,
                                             const NamedTensors &inputs,
                                             const std::string &directory) {
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  FailureOr<NamedTensors> taken = takeInputs(step, inputs);
  if (failed(taken))
    return failure();
  StepTrace trace;
  EvaluationOptions rounded{.directory = directory},
      unrounded{.directory = directory, .rounds = false};
  RootCauseFinder finder(unrounded);
  ErrorTracer errors(trace, unrounded);
  bool isFirst = true;
  rounded.observe = [&](Operation *op, ArrayRef<TensorRef> operands,
                        ArrayRef<TensorRef> results) {
    // The evaluator's copy of the step is accessible only from its ops.
    if (std::exchange(isFirst, false)) {
      auto function = cast<func::FuncOp>(op->getParentOp());
      if (std::optional<Port> loss = findResult(function, Role::Metric, "loss"))
        finder.setLoss(getResultValue(function, loss->index));
      for (auto [argument, name] :
           llvm::zip(function.getArguments(), getArgumentNames(function)))
        if (auto tensor = taken->find(name); tensor != taken->end())
          finder.observeArgument(argument, *tensor->second);
    }
    if (exact)
      errors.observePolicy(op, operands, results);
    return finder.observe(op, operands, results);
  };
  FailureOr<double> loss = evaluateLoss(module, *taken, rounded);
  if (failed(loss))
    return failure();
  trace.loss = *loss;
  trace.origin = finder.takeOrigin();
  if (!exact)
    return trace;
  auto exactStep = exact.lookupSymbol<func::FuncOp>(kStepName);
  FailureOr<NamedTensors> takenToo =
      takeInputs(exactStep, errors.widen(exactStep, inputs));
  if (failed(takenToo))
    return failure();
  EvaluationOptions watched = unrounded;
  watched.observe = [&](Operation *op, ArrayRef<TensorRef> operands,
                        ArrayRef<TensorRef> results) {
    return errors.observeExact(op, operands, results);
  };
  FailureOr<double> exactLoss = evaluateLoss(exact, *takenToo, watched);
  if (failed(exactLoss))
    return failure();
  trace.exactLoss = *exactLoss;
  return trace;
}
