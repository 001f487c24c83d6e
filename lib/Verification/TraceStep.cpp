//===- TraceStep.cpp - A step op by op, in its formats and in f64 ---------===//

#include "FindOrigin.h"
#include "OpKeys.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// The two steps
//===----------------------------------------------------------------------===//

OwningOpRef<ModuleOp> mlir::binade::makeExactTwin(ModuleOp module) {
  OwningOpRef<ModuleOp> twin(module.clone());
  twin->walk([](Operation *op) {
    if (auto decided = dyn_cast<PrecisionOpInterface>(op))
      decided.setPrecisionAttr(nullptr);
    if (auto update = dyn_cast<OptimizerUpdateOp>(op))
      update.removeStorageAttr();
  });
  return twin;
}

static std::string nameInput(const Port &port) {
  return (stringifyRole(port.role) + "/" + port.name).str();
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

/// `tensor` as one of `type`, which may be of another float format.
static TensorRef retype(TensorRef tensor, RankedTensorType type) {
  if (tensor->getType() == type || tensor->getShape() != type.getShape() ||
      !tensor->isFloat() || !isa<FloatType>(type.getElementType()))
    return tensor;
  Tensor other(type);
  llvm::copy(tensor->getFloats(), other.getFloats().begin());
  return std::make_shared<Tensor>(std::move(other));
}

/// `inputs` under the names that the evaluator has for arguments. A scale of
/// the loss that is not among them starts anew.
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
             << "', which the inputs do not have";
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
// Errors
//===----------------------------------------------------------------------===//

namespace {
/// What the step under its policy made of each op.
struct Traced {
  SmallVector<TracedValue> values;
  SmallVector<TensorRef> results;
  SmallVector<TensorRef> before; ///< What an update read of what it writes.
};

class ErrorTracer {
public:
  ErrorTracer(StepTrace &trace, const EvaluationOptions &exact)
      : trace(trace), exact(exact) {}

  void observePolicy(Operation *op, ArrayRef<TensorRef> operands,
                     ArrayRef<TensorRef> results);
  /// `inputs` with the parameters and states of `step`, which is exact, as
  /// numbers of f32.
  NamedTensors widen(func::FuncOp step, NamedTensors inputs) const;

  LogicalResult observeExact(Operation *op, ArrayRef<TensorRef> operands,
                             ArrayRef<TensorRef> results);

private:
  /// What was decided about is compared, and what updates write.
  static bool isCompared(OpResult result) {
    Operation *op = result.getOwner();
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(result.getType()));
    if (!element || element.getWidth() > 32 || isa<SaveOp, CastOp>(op))
      return false;
    if (getPhase(op) == Phase::Optimizer)
      return isa<OptimizerUpdateOp>(op);
    auto decided = dyn_cast<PrecisionOpInterface>(op);
    return decided && decided.getResultFormat(result.getResultNumber()) ==
                          FormatRole::Chosen;
  }

  /// The same value under the policy; null where there is none of its shape.
  TensorRef findOfPolicy(Value value, const Tensor &like) const;
  TracedError compare(const Traced &traced, OpResult result,
                      const Tensor &local, const Tensor &expected,
                      const Tensor *before) const;

  StepTrace &trace;
  const EvaluationOptions &exact;
  OpKeys policyKeys, exactKeys;
  std::map<std::string, Traced> ofPolicy;
  DenseMap<Operation *, std::string> names; ///< Of ops of the exact step.
};
} // namespace

void ErrorTracer::observePolicy(Operation *op, ArrayRef<TensorRef> operands,
                                ArrayRef<TensorRef> results) {
  Traced &traced = ofPolicy[policyKeys.next(op)];
  if (auto update = dyn_cast<OptimizerUpdateOp>(op)) {
    traced.before = getKeptBefore(update, operands);
    traced.results = getKeptAfter(update, results);
    traced.values.push_back(describeTraced(op, 0));
    for (const KeptState &state : update.getKeptStates())
      traced.values.push_back(describeTraced(op, 1 + state.first));
    return;
  }
  traced.results.assign(results.begin(), results.end());
  for (OpResult result : op->getResults())
    traced.values.push_back(describeTraced(op, result.getResultNumber()));
}

NamedTensors ErrorTracer::widen(func::FuncOp step, NamedTensors inputs) const {
  OpKeys keys;
  for (auto update : step.getOps<OptimizerUpdateOp>()) {
    auto found = ofPolicy.find(keys.next(update));
    if (found == ofPolicy.end())
      continue;
    SmallVector<Value> kept = {update.getParameter()};
    llvm::append_range(kept, update.getStates());
    for (auto [value, tensor] : llvm::zip(kept, found->second.before))
      if (auto argument = dyn_cast<BlockArgument>(value))
        if (auto port = getArgument(step, argument.getArgNumber()))
          inputs[nameInput(*port)] = tensor;
  }
  return inputs;
}

TensorRef ErrorTracer::findOfPolicy(Value value, const Tensor &like) const {
  auto result = dyn_cast<OpResult>(getOriginal(value));
  auto found =
      result ? ofPolicy.find(names.lookup(result.getOwner())) : ofPolicy.end();
  if (found == ofPolicy.end() ||
      result.getResultNumber() >= found->second.results.size())
    return nullptr;
  TensorRef tensor = found->second.results[result.getResultNumber()];
  bool isAlike = tensor->getShape() == like.getShape() &&
                 tensor->isFloat() == like.isFloat();
  return isAlike ? tensor : nullptr;
}

/// With `before` what is compared is how far the results are from it.
TracedError ErrorTracer::compare(const Traced &traced, OpResult result,
                                 const Tensor &local, const Tensor &expected,
                                 const Tensor *before) const {
  unsigned number = result.getResultNumber();
  const Tensor &actual = *traced.results[number];
  TracedError error{.value = traced.values[number], .result = number};
  error.value.range = measureRange(actual);
  for (int64_t i = 0, count = actual.getNumElements(); i < count; ++i) {
    double y = actual[i], l = local[i], e = expected[i];
    error.overflow += !std::isfinite(y) && std::isfinite(l);
    if (!std::isfinite(y) || !std::isfinite(l) || !std::isfinite(e))
      continue;
    if (before) {
      y -= (*before)[i];
      l -= (*before)[i];
      e -= (*before)[i];
    }
    error.underflow += y == 0.0 && l != 0.0;
    error.signal += e * e;
    error.local += l * l;
    error.error += (y - e) * (y - e);
    error.introduced += (y - l) * (y - l);
    error.inherited += (l - e) * (l - e);
  }
  for (double *sum : {&error.signal, &error.local, &error.error,
                      &error.introduced, &error.inherited})
    *sum = std::sqrt(*sum);
  return error;
}

LogicalResult ErrorTracer::observeExact(Operation *op,
                                        ArrayRef<TensorRef> operands,
                                        ArrayRef<TensorRef> results) {
  std::string key = exactKeys.next(op);
  names[op] = key;
  if (llvm::none_of(op->getResults(), isCompared))
    return success();
  auto found = ofPolicy.find(key);
  if (found == ofPolicy.end()) {
    ++trace.unmatched;
    return success();
  }
  SmallVector<TensorRef> read(operands);
  for (auto [tensor, operand] : llvm::zip(read, op->getOperands()))
    if (TensorRef narrow = findOfPolicy(operand, *tensor))
      tensor = narrow;
  FailureOr<SmallVector<TensorRef>> local = evaluate(op, read, exact);
  if (failed(local))
    return failure();
  const Tensor *parameter =
      isa<OptimizerUpdateOp>(op) ? operands.front().get() : nullptr;
  for (OpResult result : op->getResults()) {
    unsigned number = result.getResultNumber();
    if (!isCompared(result) || !findOfPolicy(result, *results[number]))
      continue;
    trace.errors.push_back(compare(found->second, result, *(*local)[number],
                                   *results[number],
                                   number == 0 ? parameter : nullptr));
  }
  return success();
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
  OriginFinder finder(unrounded);
  ErrorTracer errors(trace, unrounded);
  bool isFirst = true;
  rounded.observe = [&](Operation *op, ArrayRef<TensorRef> operands,
                        ArrayRef<TensorRef> results) {
    // The evaluator's copy of the step is seen with its first op.
    if (std::exchange(isFirst, false)) {
      auto function = cast<func::FuncOp>(op->getParentOp());
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
