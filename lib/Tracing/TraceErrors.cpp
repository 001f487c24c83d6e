//===- TraceErrors.cpp - Rounding errors of each op -----------------------===//

#include "TraceErrors.h"

using namespace mlir;
using namespace mlir::binade;

/// Whether errors of `result` are measured: results whose format was decided,
/// and results of updates.
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
  // A policy has constants of its own formats, so that their order differs.
  if (result && isa<ConstantOp>(result.getOwner()))
    return nullptr;
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

/// Computes the errors of a result. With `before`, compares the changes from it
/// instead of the results.
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
    error.vanished += y == 0.0 && e != 0.0;
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
