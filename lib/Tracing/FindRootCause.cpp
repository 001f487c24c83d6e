//===- FindRootCause.cpp - Search for the cause of a NaN ------------------===//

#include "FindRootCause.h"
#include "OpKeys.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::binade;

TracedValue RootCauseFinder::describe(Value value) const {
  TracedValue traced;
  if (auto result = dyn_cast<OpResult>(value)) {
    traced = describeTraced(result.getOwner(), result.getResultNumber());
  } else {
    auto argument = cast<BlockArgument>(value);
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (auto port = getArgument(function, argument.getArgNumber())) {
      traced.kind = stringifyRole(port->role);
      traced.node = port->name;
    }
    describeFormat(value, traced);
  }
  traced.range = ranges.lookup(value);
  return traced;
}

/// Follows the operand with the most non-finite elements, or else the one with
/// the largest magnitude.
std::vector<TracedValue> RootCauseFinder::followProducers(Operation *op) const {
  constexpr size_t kShown = 8;
  std::vector<TracedValue> producers;
  while (op && producers.size() < kShown) {
    Value next;
    auto rank = [&](Value x) {
      TracedRange range = ranges.lookup(x);
      return std::pair(range.wrong + range.minusInfinite, range.largest);
    };
    for (Value operand : op->getOperands())
      if (ranges.contains(operand) && (!next || rank(operand) > rank(next)))
        next = operand;
    if (!next)
      break;
    op = next.getDefiningOp();
    if (!isa_and_nonnull<SaveOp>(op))
      producers.push_back(describe(next));
  }
  return producers;
}

std::vector<TracedValue> RootCauseFinder::listReaders(Value value) const {
  std::vector<TracedValue> readers;
  llvm::SmallSetVector<Value, 8> open;
  open.insert(value);
  for (size_t i = 0; i < open.size(); ++i)
    for (Operation *user : open[i].getUsers()) {
      if (user->getNumResults() == 0)
        continue;
      // Look through casts, and through ops that only move elements, before
      // which casts are placed.
      Value made = user->getResult(0);
      if (isa<SaveOp, CastOp>(user) || getMoved(made)) {
        open.insert(made);
        continue;
      }
      TracedValue reader = describeTraced(user, 0);
      bool isKnown = llvm::any_of(readers, [&](const TracedValue &other) {
        return other.kind == reader.kind && other.node == reader.node &&
               other.phase == reader.phase;
      });
      if (!isKnown && !reader.decision.empty())
        readers.push_back(std::move(reader));
    }
  return readers;
}

FailureOr<NonFiniteOrigin>
RootCauseFinder::build(OpResult result, ArrayRef<TensorRef> operands) const {
  Operation *op = result.getOwner();
  NonFiniteOrigin origin{.value = describe(result)};
  for (Value operand : op->getOperands())
    if (ranges.contains(operand))
      origin.operands.push_back(describe(operand));
  origin.producers = followProducers(op);
  origin.readers = listReaders(result);
  if (isa<CastOp>(op)) {
    origin.exact = ranges.lookup(op->getOperand(0)).largest;
    return origin;
  }
  FailureOr<SmallVector<TensorRef>> unrounded = evaluate(op, operands, exact);
  if (failed(unrounded))
    return failure();
  const Tensor &values = *(*unrounded)[result.getResultNumber()];
  for (double x : values.getFloats())
    if (double magnitude = std::fabs(x); !(magnitude <= origin.exact))
      if (!std::isnan(origin.exact))
        origin.exact = magnitude;
  return origin;
}

void RootCauseFinder::observeArgument(BlockArgument argument,
                                      const Tensor &tensor) {
  if (!tensor.isFloat())
    return;
  TracedRange range = ranges[argument] = measureRange(tensor);
  if (range.wrong + range.minusInfinite == 0)
    return;
  NonFiniteOrigin origin{.value = describe(argument)};
  origin.readers = listReaders(argument);
  auto &found = range.wrong ? wrong : masked;
  if (!found)
    found = origin;
  addCandidate(argument, std::move(origin));
}

/// Records the origin of `result`, a forward value that is not finite: that of
/// an operand that is not finite either, or `result` itself. A NaN that was
/// computed from minus infinities, as in the softmax of a row of masks, is an
/// origin.
LogicalResult RootCauseFinder::followForward(OpResult result,
                                             ArrayRef<TensorRef> operands) {
  TracedRange range = ranges.lookup(result);
  if (range.wrong + range.minusInfinite == 0)
    return success();
  for (Value operand : result.getOwner()->getOperands()) {
    TracedRange own = ranges.lookup(operand);
    bool isCause = own.wrong > 0 || (range.wrong == 0 && own.minusInfinite > 0);
    if (auto source = sources.find(operand);
        isCause && source != sources.end()) {
      sources[result] = source->second;
      return success();
    }
  }
  FailureOr<NonFiniteOrigin> origin = build(result, operands);
  if (failed(origin))
    return failure();
  addCandidate(result, std::move(*origin));
  return success();
}

LogicalResult RootCauseFinder::observe(Operation *op,
                                       ArrayRef<TensorRef> operands,
                                       ArrayRef<TensorRef> results) {
  bool isOfFinite = llvm::none_of(op->getOperands(), [&](Value x) {
    return ranges.lookup(x).minusInfinite > 0;
  });
  for (auto [result, tensor] : llvm::zip(op->getResults(), results))
    if (tensor->isFloat())
      ranges[result] = measureRange(*tensor);
  for (OpResult result : op->getResults()) {
    if (getPhase(op) == Phase::Forward && op->getNumOperands() > 0 &&
        failed(followForward(result, operands)))
      return failure();
    TracedRange range = ranges.lookup(result);
    bool isWrong = range.wrong > 0 && !wrong;
    bool isMasked = range.minusInfinite > 0 && isOfFinite && !masked &&
                    op->getNumOperands() > 0;
    if (!isWrong && !isMasked)
      continue;
    FailureOr<NonFiniteOrigin> origin = build(result, operands);
    if (failed(origin))
      return failure();
    (isWrong ? wrong : masked) = std::move(*origin);
  }
  return success();
}
