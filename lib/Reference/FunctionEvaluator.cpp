//===- FunctionEvaluator.cpp - evaluate the ops of a function -------------===//

#include "FunctionEvaluator.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Sha256.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

/// The bytes that `data` refers to, checked against its hash.
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
                                                  ", the module says " +
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
      return user->emitError("external data are no ") << type;
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

/// With `length`, `op` is written for vectors of any length and evaluated for
/// vectors of that one.
LogicalResult FunctionEvaluator::evaluateOp(Operation *op,
                                            Environment &environment,
                                            std::optional<int64_t> length) {
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
  SmallVector<RankedTensorType> types;
  for (Type result : op->getResultTypes()) {
    auto type = cast<RankedTensorType>(result);
    types.push_back(length && type.getRank() > 0 ? type.clone(*length) : type);
  }
  Evaluation evaluation(op, std::move(operands), types, context,
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
  for (auto [result, value, bound, moved] :
       llvm::zip(op->getResults(), evaluation.takeResults(), bounds, moved)) {
    if (isReturned(result))
      returned[result] = {value, bound};
    environment.define(result, moved ? moved : value);
  }
  return success();
}

/// A kernel over many tensors is written for a vector: the number of elements
/// that `arguments` have; none for other functions.
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
