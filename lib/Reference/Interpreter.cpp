//===- Interpreter.cpp - Evaluate functions of a module -------------------===//

#include "binade/Reference/Interpreter.h"
#include "FunctionEvaluator.h"
#include "Storage.h"
#include "binade/IR/Interface.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Initial values of arguments without an input.
class InitialValues {
public:
  InitialValues(func::FuncOp function, const NamedTensors &inputs,
                FunctionEvaluator &evaluator)
      : function(function), inputs(inputs), evaluator(evaluator) {}

  FailureOr<Tensor> get(unsigned index, StringRef name) {
    if (auto companion =
            function.getArgAttrOfType<CompanionAttr>(index, kInitAttr))
      return getCompanion(index, companion);
    FailureOr<Tensor> tensor = load(index, name);
    RankedTensorType type = getType(index);
    if (failed(tensor) || tensor->getType() == type)
      return tensor;
    Tensor rounded(type);
    StoredParameter storage(findMaster(name), getFormat(index));
    for (int64_t i = 0, count = rounded.getNumElements(); i < count; ++i)
      storage.start(static_cast<float>((*tensor)[i]), i, &rounded, nullptr);
    return rounded;
  }

private:
  RankedTensorType getType(unsigned index) {
    return cast<RankedTensorType>(function.getArgumentTypes()[index]);
  }
  FloatType getFormat(unsigned index) {
    return cast<FloatType>(getType(index).getElementType());
  }

  FailureOr<Tensor> load(unsigned index, StringRef name) {
    Attribute init = function.getArgAttr(index, kInitAttr);
    if (!init || isa<RandomAttr>(init))
      return function.emitError("input '")
             << name << "' of type " << getType(index) << " is missing"
             << (init ? "; it is drawn at random when training starts" : "");
    return evaluator.load(function, init);
  }

  FailureOr<Tensor> getCompanion(unsigned index, CompanionAttr init) {
    StringRef name = init.getParameter();
    std::optional<Port> port = findArgument(function, Role::Parameter, name);
    RankedTensorType type = getType(index);
    if (!port || getType(port->index).getShape() != type.getShape())
      return function.emitError("no parameter '")
             << name << "' of shape " << type
             << ", to which '#binade.companion' refers";
    Tensor kept(type);
    StoredParameter storage(init.getMaster(), getFormat(port->index));
    auto keep = [&](const Tensor &parameter) {
      for (int64_t i = 0, count = kept.getNumElements(); i < count; ++i)
        storage.start(static_cast<float>(parameter[i]), i, nullptr, &kept);
      return kept;
    };
    if (auto given = inputs.find(name.str()); given != inputs.end())
      return keep(*given->second);
    FailureOr<Tensor> parameter = load(port->index, name);
    if (failed(parameter))
      return failure();
    return keep(*parameter);
  }

  /// Returns how the parameter of that name is stored.
  Master findMaster(StringRef name) {
    for (unsigned index = 0; index < function.getNumArguments(); ++index)
      if (auto companion =
              function.getArgAttrOfType<CompanionAttr>(index, kInitAttr);
          companion && companion.getParameter() == name)
        return companion.getMaster();
    return Master::None;
  }

  func::FuncOp function;
  const NamedTensors &inputs;
  FunctionEvaluator &evaluator;
};
} // namespace

FailureOr<NamedTensors>
mlir::binade::completeInputs(func::FuncOp function, const NamedTensors &inputs,
                             const EvaluationOptions &options) {
  SmallVector<std::string> names = getArgumentNames(function);
  for (const auto &[name, tensor] : inputs)
    if (!llvm::is_contained(names, name))
      return function.emitError("function '@")
             << function.getName() << "' has no argument '" << name
             << "'; its arguments are: " << llvm::join(names, ", ");
  FunctionEvaluator evaluator(options);
  NamedTensors complete = inputs;
  for (auto [index, name] : llvm::enumerate(names)) {
    Type type = function.getArgumentTypes()[index];
    if (auto given = inputs.find(name); given != inputs.end()) {
      if (given->second->getType() != type)
        return function.emitError("argument '")
               << name << "' has type " << type << ", the input "
               << given->second->getType();
      continue;
    }
    FailureOr<Tensor> tensor =
        InitialValues(function, inputs, evaluator).get(index, name);
    if (failed(tensor))
      return failure();
    complete[name] = std::make_shared<Tensor>(std::move(*tensor));
  }
  return complete;
}

/// Estimates the bounds of all results: those of the last ops, plus the
/// propagated errors of other ops, from evaluations that perturb every value
/// within its bound.
static FailureOr<SmallVector<TensorRef>>
estimateBounds(func::FuncOp function, ArrayRef<TensorRef> arguments,
               ArrayRef<TensorRef> results, const FunctionEvaluator &exact,
               const EvaluationOptions &options) {
  constexpr int kSamples = 8;
  constexpr double kSafety = 4.0;
  SmallVector<Tensor> spread;
  for (const TensorRef &result : results)
    spread.emplace_back(cast<RankedTensorType>(
        result->getType().clone(Float64Type::get(function.getContext()))));
  std::mt19937_64 generator(20);
  for (int sample = 0; sample < kSamples; ++sample) {
    FunctionEvaluator evaluator(options, [&] {
      return std::ldexp(static_cast<double>(generator() >> 11), -52) - 1.0;
    });
    FailureOr<SmallVector<TensorRef>> moved =
        evaluator.evaluate(function, arguments);
    if (failed(moved))
      return failure();
    for (auto [bound, from, to] : llvm::zip(spread, results, *moved))
      for (int64_t i = 0, count = bound.getNumElements(); i < count; ++i)
        bound[i] = std::fmax(bound[i],
                             std::fabs(from->getNumber(i) - to->getNumber(i)));
  }
  SmallVector<TensorRef> bounds;
  for (auto [index, bound] : llvm::enumerate(spread)) {
    TensorRef last = exact.getBound(function, index);
    for (int64_t i = 0, count = bound.getNumElements(); i < count; ++i)
      bound[i] = kSafety * bound[i] + (last ? (*last)[i] : 0.0);
    bounds.push_back(std::make_shared<Tensor>(std::move(bound)));
  }
  return bounds;
}

FailureOr<func::FuncOp> mlir::binade::findFunction(ModuleOp module,
                                                   StringRef name) {
  if (auto function = module.lookupSymbol<func::FuncOp>(name);
      function && !function.isExternal())
    return function;
  SmallVector<std::string> names;
  for (auto candidate : module.getOps<func::FuncOp>())
    names.push_back(candidate.getName().str());
  return module.emitError("there is no function '@")
         << name << "' with a body; the module's functions are: "
         << llvm::join(names, ", ");
}

/// Replaces updates that depend on whole tensors by the ops of their `prepare`
/// and elementwise updates.
static void prepareUpdates(func::FuncOp function) {
  function.walk([](OptimizerUpdateOp op) {
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Operation *before = op->getPrevNode();
    if (FailureOr<SmallVector<Value>> parts = op.decompose(b);
        succeeded(parts)) {
      for (Operation *made = op->getPrevNode(); made != before;
           made = made->getPrevNode())
        setPhase(made, getPhase(op));
      op->replaceAllUsesWith(*parts);
      op->erase();
    }
  });
}

FailureOr<SmallVector<TensorRef>>
mlir::binade::evaluate(Operation *op, ArrayRef<TensorRef> operands,
                       const EvaluationOptions &options) {
  return FunctionEvaluator(options).evaluate(op, operands);
}

FailureOr<Outputs> mlir::binade::evaluate(ModuleOp module, StringRef name,
                                          const NamedTensors &inputs,
                                          const EvaluationOptions &options) {
  OwningOpRef<ModuleOp> prepared = module.clone();
  FailureOr<func::FuncOp> function = findFunction(*prepared, name);
  if (failed(function))
    return failure();
  prepareUpdates(*function);
  FailureOr<NamedTensors> complete = completeInputs(*function, inputs, options);
  if (failed(complete))
    return failure();
  SmallVector<TensorRef> arguments;
  for (const std::string &argument : getArgumentNames(*function))
    arguments.push_back((*complete)[argument]);
  FunctionEvaluator evaluator(options);
  FailureOr<SmallVector<TensorRef>> results =
      evaluator.evaluate(*function, arguments);
  if (failed(results))
    return failure();
  Outputs outputs;
  SmallVector<std::string> names = getResultNames(*function);
  for (auto [name, result] : llvm::zip(names, *results))
    outputs.values[name] = result;
  if (!options.bounds)
    return outputs;
  FailureOr<SmallVector<TensorRef>> bounds =
      estimateBounds(*function, arguments, *results, evaluator, options);
  if (failed(bounds))
    return failure();
  for (auto [name, bound] : llvm::zip(names, *bounds))
    outputs.bounds[name] = bound;
  return outputs;
}
