//===- Kernel.cpp - calls of kernels and functions ------------------------===//

#include "Families.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

static FailureOr<func::FuncOp> lookUp(Operation *op, FlatSymbolRefAttr callee) {
  auto function =
      SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, callee);
  if (!function || function.isExternal())
    return op->emitError("function ")
           << callee << " has no body in this module";
  return function;
}

static LogicalResult evaluateCall(func::CallOp op, Evaluation &e) {
  FailureOr<func::FuncOp> function = lookUp(op, op.getCalleeAttr());
  if (failed(function))
    return failure();
  auto results = e.getContext().call(op, *function, e.getOperands());
  if (failed(results))
    return failure();
  for (auto [index, result] : llvm::enumerate(*results))
    e.setResult(index, result);
  return success();
}

/// What several segments reduce to: sums of numbers, disjunctions of bits.
static TensorRef combine(const TensorRef &all, const TensorRef &segment) {
  if (!all)
    return segment;
  Tensor combined = *all;
  if (combined.isFloat())
    combined[0] += (*segment)[0];
  else if (combined.getType().getElementType().isInteger(1))
    combined.getIntegers()[0] |= segment->getIntegers()[0];
  else
    combined.getIntegers()[0] += segment->getIntegers()[0];
  combined.roundElements();
  return std::make_shared<Tensor>(std::move(combined));
}

/// Kernels over many tensors take one segment of the operands each. Their
/// results of rank 0 are one value for all segments.
static LogicalResult evaluateLaunch(LaunchOp op, Evaluation &e) {
  ArrayRef<TensorRef> operands = e.getOperands();
  SmallVector<TensorRef> own, shared;
  for (auto symbol : op.getKernels().getAsRange<FlatSymbolRefAttr>()) {
    FailureOr<func::FuncOp> kernel = lookUp(op, symbol);
    if (failed(kernel))
      return failure();
    unsigned count = kernel->getNumArguments();
    auto results = e.getContext().call(op, *kernel, operands.take_front(count));
    if (failed(results))
      return failure();
    operands = operands.drop_front(count);
    auto schedule = (*kernel)->getAttrOfType<ScheduleAttr>(kKernelAttr);
    bool overMany = schedule && schedule.getValue() == Schedule::MultiTensor;
    unsigned scalars = 0;
    for (TensorRef &result : *results) {
      if (!overMany || result->getRank() > 0) {
        own.push_back(std::move(result));
        continue;
      }
      if (scalars == shared.size())
        shared.emplace_back();
      shared[scalars] = combine(shared[scalars], result);
      ++scalars;
    }
  }
  for (auto [index, result] :
       llvm::enumerate(llvm::concat<TensorRef>(own, shared)))
    e.setResult(index, Tensor::reshape(result, e.result(index).getType()));
  return success();
}

void mlir::binade::addKernel(Reference &reference) {
  reference.add<func::CallOp>(evaluateCall);
  reference.add<LaunchOp>(evaluateLaunch);
}
