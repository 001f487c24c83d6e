//===- Exchange.cpp - Sums over the ranks of a group ----------------------===//

#include "binade/Container/ExchangeLayout.h"
#include "binade/IR/ExchangeOps.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

#include "binade/IR/Ops/ExchangeEnums.cpp.inc"
#define GET_OP_CLASSES
#include "binade/IR/Ops/Exchange.cpp.inc"

Schedule ExchangeOp::getSchedule() { return Schedule::Library; }
Schedule ExchangeAddOp::getSchedule() { return Schedule::Library; }

OperandRange ExchangeOp::getBucket(unsigned index) {
  ArrayRef<int64_t> sizes = getBuckets();
  int64_t first = 0;
  for (int64_t size : sizes.take_front(index))
    first += size;
  return getGradients().slice(first, sizes[index]);
}

ResultRange ExchangeOp::getSummed() {
  return getResults().take_front(getGradients().size());
}

ResultRange ExchangeOp::getLargest() {
  return getResults().slice(getGradients().size(), getMagnitudes().size());
}

Value ExchangeOp::getLast() {
  return getRng() ? Value(getResults().back()) : Value();
}

LogicalResult ExchangeOp::verify() {
  OperandRange inPlace = getOperands().drop_back(getSums().size());
  if (inPlace.getTypes() != getResultTypes()) // C1
    return emitOpError("expects a result of the type of each gradient, "
                       "magnitude and generator");
  int64_t total = 0;
  for (int64_t size : getBuckets()) {
    if (size < 1) // C2
      return emitOpError("expects buckets of at least one gradient, got ")
             << size;
    total += size;
  }
  if (total != static_cast<int64_t>(getGradients().size()))
    return emitOpError("expects buckets for ")
           << getGradients().size() << " gradients, got " << total;
  size_t wanted = getFormat() == ExchangeFormat::Exact ? getNumBuckets() : 0;
  if (getSums().size() != wanted) // C3
    return emitOpError("expects ")
           << wanted << " fixed-point sums, got " << getSums().size();
  for (auto [index, sum] : llvm::enumerate(getSums()))
    if (sum.getType() != ExchangeAddOp::getSumType(getBucket(index)))
      return emitOpError("expects a sum of type ")
             << ExchangeAddOp::getSumType(getBucket(index)) << ", got "
             << sum.getType();
  return success();
}

RankedTensorType ExchangeAddOp::getSumType(ValueRange gradients) {
  std::vector<int64_t> elements;
  for (Value gradient : gradients)
    elements.push_back(getNumElements(gradient));
  return RankedTensorType::get(
      {::binade::ExchangeLayout(elements).getSumSize()},
      IntegerType::get(gradients.front().getContext(), 32));
}

LogicalResult ExchangeAddOp::verify() {
  if (getGradients().empty())
    return emitOpError("expects at least one gradient");
  if (getSum().getType() != getSumType(getGradients()) ||
      getAfter().getType() != getSum().getType()) // C1
    return emitOpError("expects a sum of type ")
           << getSumType(getGradients()) << ", got " << getSum().getType();
  return success();
}
