//===- FunctionEvaluator.cpp - Evaluation of functions --------------------===//

#include "FunctionEvaluator.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Sha256.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the bytes that `data` refers to, verified by its hash.
static ::binade::Result<std::vector<char>> readExternal(ExternalAttr data,
                                                        StringRef directory) {
  auto file = ::binade::openBeneath(directory.str(), data.getFile().strref());
  if (!file)
    return file.takeError();
  if (auto inside =
          ::binade::checkRange(*file, data.getOffset(), data.getBytes());
      !inside)
    return inside.takeError();
  std::vector<char> bytes(data.getBytes());
  std::span<std::byte> into = std::as_writable_bytes(std::span(bytes));
  if (auto done = ::binade::readRange(*file, data.getOffset(), into); !done)
    return done.takeError();
  if (StringAttr expected = data.getSha256()) {
    std::string found = ::binade::sha256(into);
    if (!StringRef(found).equals_insensitive(expected.getValue()))
      return ::binade::Error{file->getPath(), "data have SHA-256 " + found +
                                                  ", the module expects " +
                                                  expected.str()};
  }
  return bytes;
}

FailureOr<Tensor> FunctionEvaluator::load(Operation *user, Attribute value) {
  if (auto external = dyn_cast<ExternalAttr>(value)) {
    auto bytes = readExternal(external, options.directory);
    if (!bytes)
      return user->emitError("cannot read external data: ")
             << ::binade::render(bytes.error());
    auto type = cast<RankedTensorType>(external.getType());
    FailureOr<Tensor> tensor = Tensor::fromBytes(type, *bytes);
    if (failed(tensor))
      return user->emitError("external data are not valid for ") << type;
    return tensor;
  }
  if (auto elements = dyn_cast<ElementsAttr>(value))
    if (FailureOr<Tensor> tensor = Tensor::fromElements(elements);
        succeeded(tensor))
      return tensor;
  return user->emitError("cannot read the elements of ") << value;
}

FailureOr<SmallVector<TensorRef>>
FunctionEvaluator::call(Operation *user, func::FuncOp function,
                        ArrayRef<TensorRef> operands,
                        ArrayRef<RankedTensorType> results) {
  if (active.contains(function))
    return user->emitError("function '@")
           << function.getName() << "' calls itself";
  if (options.kernels && function->hasAttr(kKernelAttr))
    return options.kernels(function, operands, results);
  return evaluate(function, operands);
}

/// Returns the reference function of `op`; emits an error and returns null if
/// there is none.
static const Reference::Function *findMeaning(Operation *op) {
  const Reference::Function *function =
      Reference::get().find(op->getName().getStringRef());
  if (!function) {
    op->emitError("the reference interpreter does not know '")
        << op->getName() << "'";
    return nullptr;
  }
  for (Type type :
       llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() ||
        !Tensor::canHold(tensor.getElementType())) {
      op->emitError("the reference interpreter needs tensors of static "
                    "shape and at most 64 bits per element, got ")
          << type;
      return nullptr;
    }
  }
  return function;
}

/// Returns the result types; with `length`, vectors of `op` have that length.
static SmallVector<RankedTensorType>
getResultTypes(Operation *op, std::optional<int64_t> length) {
  SmallVector<RankedTensorType> types;
  for (Type result : op->getResultTypes()) {
    auto type = cast<RankedTensorType>(result);
    types.push_back(length && type.getRank() > 0 ? type.clone(*length) : type);
  }
  return types;
}

FailureOr<SmallVector<TensorRef>>
FunctionEvaluator::evaluate(Operation *op, ArrayRef<TensorRef> operands) {
  const Reference::Function *function = findMeaning(op);
  if (!function)
    return failure();
  SmallVector<RankedTensorType> types = getResultTypes(op, std::nullopt);
  Evaluation evaluation(op, SmallVector<TensorRef>(operands), types, context,
                        /*wantsErrors=*/false);
  if (failed((*function)(evaluation)))
    return failure();
  return evaluation.takeResults(options.rounds);
}

/// Evaluates `op` for vectors of `length`, if given.
LogicalResult FunctionEvaluator::evaluateOp(Operation *op,
                                            Environment &environment,
                                            std::optional<int64_t> length) {
  const Reference::Function *function = findMeaning(op);
  if (!function)
    return failure();
  SmallVector<TensorRef> operands;
  for (Value operand : op->getOperands())
    operands.push_back(environment.use(operand));
  SmallVector<RankedTensorType> types = getResultTypes(op, length);
  Evaluation evaluation(op, operands, types, context,
                        /*wantsErrors=*/options.bounds || draw);
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
  SmallVector<TensorRef> values = evaluation.takeResults(options.rounds);
  bool isOutermost = active.size() == 1 && op->getParentOp() == active.front();
  if (options.observe && isOutermost &&
      failed(options.observe(op, operands, values)))
    return failure();
  for (auto [result, value, bound, moved] :
       llvm::zip(op->getResults(), values, bounds, moved)) {
    if (isReturned(result))
      returned[result] = {value, bound};
    environment.define(result, moved ? moved : value);
  }
  return success();
}

/// Returns the vector length of a multi-tensor kernel, the number of elements
/// of `arguments`; none for other functions.
static std::optional<int64_t> getVectorLength(func::FuncOp function,
                                              ArrayRef<TensorRef> arguments) {
  auto schedule = function->getAttrOfType<ScheduleAttr>(kKernelAttr);
  if (!schedule || schedule.getValue() != Schedule::MultiTensor)
    return std::nullopt;
  for (const TensorRef &argument : arguments)
    if (argument->getRank() > 0)
      return argument->getNumElements();
  return std::nullopt;
}

FailureOr<SmallVector<TensorRef>>
FunctionEvaluator::evaluate(func::FuncOp function,
                            ArrayRef<TensorRef> arguments) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("the reference interpreter needs a body of one "
                              "block");
  active.insert(function);
  FailureOr<SmallVector<TensorRef>> results = evaluate(
      function.front(), arguments, getVectorLength(function, arguments));
  active.remove(function);
  return results;
}

FailureOr<SmallVector<TensorRef>>
FunctionEvaluator::evaluate(Block &block, ArrayRef<TensorRef> arguments,
                            std::optional<int64_t> length) {
  Environment environment;
  for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments)) {
    RankedTensorType type = tensor->getType();
    if (length && type.getRank() > 0)
      type = type.clone(type.getNumElements());
    environment.define(argument, Tensor::reshape(tensor, type));
  }
  for (Operation &op : block.without_terminator())
    if (failed(evaluateOp(&op, environment, length)))
      return failure();
  SmallVector<TensorRef> results;
  for (Value value : block.getTerminator()->getOperands()) {
    TensorRef result = environment.use(value);
    auto kept = returned.find(value);
    results.push_back(kept == returned.end() ? result : kept->second.value);
  }
  return results;
}
