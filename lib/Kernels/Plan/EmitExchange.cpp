//===- EmitExchange.cpp - Records of exchanged gradients ------------------===//
//
// A bucket starts right after the record that completes its last gradient, and
// all buckets are joined where the op stands: a static schedule.
//
//===----------------------------------------------------------------------===//

#include "PlanEmitter.h"
#include "binade/IR/InternalError.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

static plan::Exchange::Format getFormat(ExchangeFormat format) {
  return *plan::parseExchangeFormat(stringifyExchangeFormat(format).str());
}

plan::Exchange PlanEmitter::buildBucket(plan::Exchange::Action action,
                                        unsigned bucket, ValueRange tensors) {
  plan::Exchange exchange;
  exchange.action = action;
  exchange.bucket = bucket;
  for (Value tensor : tensors) {
    exchange.tensors.push_back(getView(tensor));
    exchange.elements.push_back(getNumElements(tensor));
  }
  return exchange;
}

void PlanEmitter::insertRecord(size_t position, plan::Record record) {
  records->insert(records->begin() + position, std::move(record));
  if (records != &plan().records)
    return;
  for (size_t &index : observing)
    index += index >= position;
}

/// Returns the op that computes `value` in `block`; null for an argument.
static Operation *findProducer(Value value, Block *block) {
  Operation *producer = findBase(value).getDefiningOp();
  return producer ? block->findAncestorOpInBlock(*producer) : nullptr;
}

/// Checks that nothing reads what the op overwrites.
static LogicalResult checkOverwritten(ExchangeOp op) {
  for (Value value : op.getOperands())
    for (Operation *user : value.getUsers()) {
      Operation *reader = op->getBlock()->findAncestorOpInBlock(*user);
      if (reader && reader != op && op->isBeforeInBlock(reader))
        return emitInternalError(op->getLoc())
               << "'" << reader->getName()
               << "' reads a value that an exchange has overwritten";
    }
  return success();
}

LogicalResult PlanEmitter::emitExchange(ExchangeOp op) {
  bool isWide = op.getFormat() == ExchangeFormat::F32;
  if (getTarget(op) && (!isWide || !op.getMagnitudes().empty()))
    return op.emitError("has no kernels for GPUs, which exchange gradients in "
                        "f32 and no delayed scales; use '--exchange f32', or "
                        "compile for the CPU");
  if (failed(checkOverwritten(op)))
    return failure();
  unsigned count = op.getNumBuckets();
  std::vector<std::pair<size_t, plan::Record>> starts;
  size_t earliest = 0;
  for (unsigned index = 0; index < count; ++index) {
    plan::Exchange start =
        buildBucket(plan::Exchange::Start, index, op.getBucket(index));
    start.format = getFormat(op.getFormat());
    if (op.getFormat() == ExchangeFormat::Exact)
      start.sums = getView(op.getSums()[index]);
    for (Value gradient : op.getBucket(index))
      if (Operation *producer = findProducer(gradient, op->getBlock()))
        earliest = std::max(earliest, ends.lookup(producer));
    starts.emplace_back(
        earliest,
        plan::Record{"exchange bucket " + std::to_string(index), start});
  }
  for (auto &[position, record] : llvm::reverse(starts))
    insertRecord(position, std::move(record));
  if (!op.getMagnitudes().empty()) {
    plan::Exchange start =
        buildBucket(plan::Exchange::Start, count, op.getMagnitudes());
    start.operation = plan::Exchange::Max;
    records->push_back({"exchange magnitudes", std::move(start)});
    ++count;
  }
  plan::Exchange join;
  join.action = plan::Exchange::Join;
  join.bucket = count;
  if (op.getRng())
    join.counter = getView(op.getRng());
  records->push_back({"join exchanges", std::move(join)});
  return success();
}

LogicalResult PlanEmitter::emitExchangeAdd(ExchangeAddOp op) {
  // The accumulation adds buckets in their order.
  unsigned bucket = llvm::count_if(*records, [](const plan::Record &record) {
    return std::holds_alternative<plan::Exchange>(record.body);
  });
  plan::Exchange add =
      buildBucket(plan::Exchange::Add, bucket, op.getGradients());
  add.format = plan::Exchange::Exact;
  add.sums = getView(op.getSum());
  records->push_back(
      {"add to bucket " + std::to_string(bucket), std::move(add)});
  return success();
}
