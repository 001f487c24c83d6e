//===- Interpreter.cpp - evaluate functions of a module -------------------===//

#include "binade/Reference/Interpreter.h"
#include "binade/IR/Interface.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Evaluation of one function
//===----------------------------------------------------------------------===//

namespace {
/// Tensors of the values that are still needed.
class Environment {
public:
  void define(Value value, TensorRef tensor) {
    if (!value.use_empty())
      tensors[value] = {std::move(tensor),
                        std::distance(value.use_begin(), value.use_end())};
  }
  TensorRef use(Value value) {
    auto found = tensors.find(value);
    TensorRef tensor = found->second.first;
    if (--found->second.second == 0)
      tensors.erase(found);
    return tensor;
  }

private:
  DenseMap<Value, std::pair<TensorRef, int64_t>> tensors;
};

class Interpreter {
public:
  /// With `draw`, what ops read is moved at random within its bound.
  Interpreter(const EvaluationOptions &options,
              std::function<double()> draw = {})
      : options(options), draw(std::move(draw)) {
    context.call = [&](Operation *user, func::FuncOp function,
                       ArrayRef<TensorRef> operands) {
      return call(user, function, operands);
    };
    context.load = [&](Operation *user, Attribute value) {
      return load(user, value);
    };
  }

  FailureOr<SmallVector<TensorRef>> evaluate(func::FuncOp function,
                                             ArrayRef<TensorRef> arguments);
  FailureOr<Tensor> load(Operation *user, Attribute value);

  /// The bound of the op that made result `index` of `function`; null where it
  /// is exact or no op did.
  TensorRef getBound(func::FuncOp function, unsigned index) const {
    Value value = function.front().getTerminator()->getOperand(index);
    return returned.lookup(value).bound;
  }

private:
  struct Returned {
    TensorRef value, bound;
  };

  FailureOr<SmallVector<TensorRef>> call(Operation *user, func::FuncOp function,
                                         ArrayRef<TensorRef> operands);
  LogicalResult evaluateOp(Operation *op, Environment &environment);

  const EvaluationOptions &options;
  std::function<double()> draw;
  Evaluation::Context context;
  llvm::SmallSetVector<Operation *, 4> active; // Functions being evaluated.
  DenseMap<Value, Returned> returned;          // By the outermost function.
};
} // namespace

FailureOr<Tensor> Interpreter::load(Operation *user, Attribute value) {
  if (auto elements = dyn_cast<ElementsAttr>(value))
    if (FailureOr<Tensor> tensor = Tensor::fromElements(elements);
        succeeded(tensor))
      return tensor;
  return user->emitError("cannot read the data of ") << value;
}

FailureOr<SmallVector<TensorRef>>
Interpreter::call(Operation *user, func::FuncOp function,
                  ArrayRef<TensorRef> operands) {
  if (active.contains(function))
    return user->emitError("function '@")
           << function.getName() << "' calls itself";
  return evaluate(function, operands);
}

LogicalResult Interpreter::evaluateOp(Operation *op, Environment &environment) {
  const Reference::Function *function =
      Reference::get().find(op->getName().getStringRef());
  if (!function)
    return op->emitError("the reference interpreter does not know '")
           << op->getName() << "'";
  for (Type type :
       llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() ||
        !Tensor::canHold(tensor.getElementType()))
      return op->emitError("the reference interpreter needs tensors of static "
                           "shape and at most 64 bits per element, got ")
             << type;
  }
  SmallVector<TensorRef> operands;
  for (Value operand : op->getOperands())
    operands.push_back(environment.use(operand));
  Evaluation evaluation(op, std::move(operands), context);
  if (failed((*function)(evaluation)))
    return failure();

  SmallVector<TensorRef> moved(op->getNumResults());
  SmallVector<TensorRef> bounds(op->getNumResults());
  if (options.bounds)
    bounds = evaluation.makeBounds();
  if (draw)
    moved = evaluation.makePerturbed(draw);
  auto isReturned = [&](Value result) {
    return active.size() == 1 &&
           llvm::any_of(result.getUsers(), llvm::IsaPred<func::ReturnOp>);
  };
  for (auto [result, value, bound, moved] :
       llvm::zip(op->getResults(), evaluation.takeResults(), bounds, moved)) {
    if (isReturned(result))
      returned[result] = {value, bound};
    environment.define(result, moved ? moved : value);
  }
  return success();
}

FailureOr<SmallVector<TensorRef>>
Interpreter::evaluate(func::FuncOp function, ArrayRef<TensorRef> arguments) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("the reference interpreter needs a body of one "
                              "block");
  active.insert(function);
  Environment environment;
  for (auto [argument, tensor] : llvm::zip(function.getArguments(), arguments))
    environment.define(argument, tensor);
  for (Operation &op : function.front().without_terminator())
    if (failed(evaluateOp(&op, environment)))
      return failure();
  active.remove(function);
  SmallVector<TensorRef> results;
  for (Value value : function.front().getTerminator()->getOperands()) {
    TensorRef result = environment.use(value);
    auto kept = returned.find(value);
    results.push_back(kept == returned.end() ? result : kept->second.value);
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Evaluation by names
//===----------------------------------------------------------------------===//

/// The tensors of the arguments, from `inputs` or as the module says.
static FailureOr<SmallVector<TensorRef>>
collectArguments(func::FuncOp function, const NamedTensors &inputs,
                 Interpreter &interpreter) {
  SmallVector<std::string> names = getArgumentNames(function);
  for (const auto &[name, tensor] : inputs)
    if (!llvm::is_contained(names, name))
      return function.emitError("function '@")
             << function.getName() << "' has no argument '" << name
             << "'; its arguments are: " << llvm::join(names, ", ");
  SmallVector<TensorRef> arguments;
  for (auto [index, name] : llvm::enumerate(names)) {
    Type type = function.getArgumentTypes()[index];
    auto given = inputs.find(name);
    if (given != inputs.end()) {
      if (given->second->getType() != type)
        return function.emitError("argument '")
               << name << "' has type " << type << ", the input "
               << given->second->getType();
      arguments.push_back(given->second);
      continue;
    }
    Attribute init = function.getArgAttr(index, kInitAttr);
    if (!init || isa<RandomAttr>(init))
      return function.emitError("input '")
             << name << "' of type " << type << " is missing"
             << (init ? "; it is drawn at random when training starts" : "");
    FailureOr<Tensor> tensor = interpreter.load(function, init);
    if (failed(tensor))
      return failure();
    arguments.push_back(std::make_shared<Tensor>(std::move(*tensor)));
  }
  return arguments;
}

/// Bounds of all results: those of the last ops, and what errors of the others
/// may add, estimated from evaluations that move every value within its bound.
static FailureOr<SmallVector<TensorRef>>
estimateBounds(func::FuncOp function, ArrayRef<TensorRef> arguments,
               ArrayRef<TensorRef> results, const Interpreter &exact,
               const EvaluationOptions &options) {
  constexpr int kSamples = 8;
  constexpr double kSafety = 4.0;
  SmallVector<Tensor> spread;
  for (const TensorRef &result : results)
    spread.emplace_back(cast<RankedTensorType>(
        result->getType().clone(Float64Type::get(function.getContext()))));
  std::mt19937_64 generator(20);
  for (int sample = 0; sample < kSamples; ++sample) {
    Interpreter interpreter(options, [&] {
      return std::ldexp(static_cast<double>(generator() >> 11), -52) - 1.0;
    });
    FailureOr<SmallVector<TensorRef>> moved =
        interpreter.evaluate(function, arguments);
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

FailureOr<Outputs> mlir::binade::evaluate(ModuleOp module, StringRef name,
                                          const NamedTensors &inputs,
                                          const EvaluationOptions &options) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function || function.isExternal()) {
    SmallVector<std::string> names;
    for (auto candidate : module.getOps<func::FuncOp>())
      names.push_back(candidate.getName().str());
    return module.emitError("there is no function '@")
           << name << "' with a body; the module's functions are: "
           << llvm::join(names, ", ");
  }
  Interpreter interpreter(options);
  FailureOr<SmallVector<TensorRef>> arguments =
      collectArguments(function, inputs, interpreter);
  if (failed(arguments))
    return failure();
  FailureOr<SmallVector<TensorRef>> results =
      interpreter.evaluate(function, *arguments);
  if (failed(results))
    return failure();
  Outputs outputs;
  SmallVector<std::string> names = getResultNames(function);
  for (auto [name, result] : llvm::zip(names, *results))
    outputs.values[name] = result;
  if (!options.bounds)
    return outputs;
  FailureOr<SmallVector<TensorRef>> bounds =
      estimateBounds(function, *arguments, *results, interpreter, options);
  if (failed(bounds))
    return failure();
  for (auto [name, bound] : llvm::zip(names, *bounds))
    outputs.bounds[name] = bound;
  return outputs;
}
