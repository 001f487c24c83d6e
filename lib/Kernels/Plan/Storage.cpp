//===- Storage.cpp - Storage of values ------------------------------------===//

#include "Storage.h"
#include "../Layout/Strides.h"
#include "LibraryCalls.h"
#include "binade/IR/ExchangeOps.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::plan::Category;

::binade::DType mlir::binade::getDType(Type element) {
  using ::binade::DType;
  if (element.isF64())
    return DType::F64;
  if (element.isF32())
    return DType::F32;
  if (element.isF16())
    return DType::F16;
  if (element.isBF16())
    return DType::BF16;
  if (isa<Float8E4M3FNType>(element))
    return DType::F8_E4M3;
  if (isa<Float8E5M2Type>(element))
    return DType::F8_E5M2;
  if (isa<Float8E8M0FNUType>(element))
    return DType::F8_E8M0;
  // Containers have no other formats of at most 8 bits, and store their bit
  // patterns.
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 8)
    return DType::U8;
  if (element.isInteger(1))
    return DType::BOOL;
  bool isUnsigned = element.isUnsignedInteger();
  switch (element.getIntOrFloatBitWidth()) {
  case 64:
    return isUnsigned ? DType::U64 : DType::I64;
  case 32:
    return isUnsigned ? DType::U32 : DType::I32;
  case 16:
    return isUnsigned ? DType::U16 : DType::I16;
  default: // At most 8 bits take a byte.
    return isUnsigned ? DType::U8 : DType::I8;
  }
}

static Category getCategory(Role role) {
  switch (role) {
  case Role::Parameter:
    return Category::Parameter;
  case Role::Buffer:
    return Category::Buffer;
  case Role::State:
    return Category::State;
  case Role::Batch:
    return Category::Batch;
  case Role::Accumulator:
  case Role::Gradient:
    return Category::Gradient;
  default:
    return Category::Scalar;
  }
}

Value mlir::binade::findYielded(Block &body, unsigned index) {
  ValueRange yielded = body.getTerminator()->getOperands();
  Value base = findBase(yielded[index]);
  for (Value before : yielded.take_front(index))
    if (findBase(before) == base)
      return {};
  Operation *producer = base.getDefiningOp();
  return producer && !producer->hasTrait<OpTrait::ConstantLike>() ? base
                                                                  : Value();
}

StorageMap::StorageMap(ArrayRef<Program> programs, const PlanOptions &options)
    : options(options) {
  func::FuncOp step = programs.front().function;
  placeArguments(step);
  for (const Program &program : programs) {
    func::FuncOp function = program.function;
    for (auto [argument, index] :
         llvm::zip(function.getArguments(), program.arguments))
      aliases[argument] = step.getArgument(index);
    ends.emplace_back();
    count(function.front());
    place(function.front());
    placeExchanged(function);
    placeInArguments(program);
    reuse(function);
    orderCopies(program);
    categorize(function);
    keepScalars(program);
    ends.back().position = end++;
  }
}

/// Gives metrics and statistics, which the host reads after each step,
/// persistent memory of their own.
void StorageMap::keepScalars(const Program &program) {
  func::FuncOp function = program.function;
  for (Role role : {Role::Metric, Role::Statistic})
    for (const Port &port : getResults(function, role)) {
      if (program.replaced[port.index])
        continue;
      Type type = function.getResultTypes()[port.index];
      Storage &storage = storages[ends.back().results[port.index]];
      if (storage.persistent || storage.bytes != getByteSize(type))
        continue;
      storage.persistent = true;
      storage.category = Category::Scalar;
    }
}

unsigned StorageMap::of(Value value) const {
  for (auto found = aliases.find(value); found != aliases.end();
       found = aliases.find(value))
    value = found->second;
  return storageOf.lookup(value);
}

void StorageMap::count(Block &block) {
  for (Operation &op : block) {
    unsigned begin = end++;
    for (Region &region : op.getRegions())
      for (Block &body : region)
        count(body);
    positions[&op] = {begin, op.getNumRegions() ? end++ : begin};
  }
}

unsigned StorageMap::add(uint64_t bytes, Category category, bool persistent,
                         unsigned position, TileOp around) {
  storages.push_back(
      {bytes, category, persistent, position, position, 0, around, 0});
  return storages.size() - 1;
}

unsigned StorageMap::addScratch(uint64_t bytes, Operation *op,
                                Category category, bool persistent) {
  return add(bytes, category, persistent, getPosition(op),
             findParallelAround(op));
}

/// Returns the number of iterations of `tile` that can run in parallel: 1 if
/// their results are added.
int64_t StorageMap::getConcurrency(TileOp tile) const {
  if (tile.getJoins() != tile->getNumResults())
    return 1;
  return std::min<int64_t>(tile.getCount(), options.threads);
}

/// Whether iterations of `tile` can run in parallel: they share no sum or
/// status word, and no tile inside can use more threads. The remainder runs
/// after them.
bool StorageMap::mayRunInParallel(TileOp tile) const {
  int64_t own = getConcurrency(tile), inner = 1;
  tile.getBody().walk(
      [&](TileOp op) { inner = std::max(inner, getConcurrency(op)); });
  if (own == 1 || inner > own || tile.getRemainder() > 0 ||
      findParallelAround(tile))
    return false;
  auto hasStatus = [&](LaunchOp launch) {
    return llvm::any_of(
        launch.getKernels().getAsRange<FlatSymbolRefAttr>(), [&](auto symbol) {
          auto shape = options.kernels.find(symbol.getValue());
          return shape != options.kernels.end() && shape->second.hasStatus;
        });
  };
  WalkResult walked = tile->walk([&](LaunchOp launch) {
    return hasStatus(launch) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return !walked.wasInterrupted();
}

TileOp StorageMap::findParallelAround(Operation *op) const {
  auto tile = op->getParentOfType<TileOp>();
  while (tile && getSlots(tile) == 0)
    tile = tile->getParentOfType<TileOp>();
  return tile;
}

void StorageMap::placeArguments(func::FuncOp step) {
  for (BlockArgument argument : step.getArguments()) {
    std::optional<Port> port = getArgument(step, argument.getArgNumber());
    Category category = port ? getCategory(port->role) : Category::Batch;
    storageOf[argument] =
        add(getByteSize(argument.getType()), category, true, 0);
  }
}

void StorageMap::place(Block &block) {
  for (Operation &op : block.without_terminator())
    placeResults(&op);
}

void StorageMap::placeResults(Operation *op) {
  if (isView(op) || op->hasTrait<ResultsInPlace>()) {
    for (OpResult result : op->getResults())
      aliases[result] = op->getOperand(result.getResultNumber());
  } else {
    auto constant = dyn_cast<ConstantOp>(op);
    bool isConstant = constant != nullptr;
    if (isConstant) {
      auto [first, isNew] =
          constants.try_emplace(constant.getValue(), constant.getResult());
      if (!isNew)
        aliases[constant.getResult()] = first->second;
    }
    for (OpResult result : op->getResults()) {
      if (isOmitted(result))
        continue;
      Value whole = findWrittenPlace(result)->base;
      if (aliases.contains(result) || storageOf.contains(result))
        continue;
      if (whole != result)
        aliases[result] = whole;
      if (storageOf.contains(whole))
        continue;
      storageOf[whole] =
          add(getByteSize(whole.getType()),
              isConstant ? Category::Constant : Category::Workspace, isConstant,
              getPosition(op), isConstant ? TileOp() : findParallelAround(op));
      storages.back().last = positions[op].second;
    }
  }
  for (Value operand : op->getOperands()) {
    Storage &storage = storages[of(operand)];
    storage.last = std::max(storage.last, positions[op].second);
  }
  if (auto tile = dyn_cast<TileOp>(op))
    placeTile(tile);
}

/// Places the arguments of a tile's bodies in the operands, and yielded values
/// in the results.
void StorageMap::placeTile(TileOp tile) {
  if (mayRunInParallel(tile))
    slots[tile] = getConcurrency(tile);
  for (Block *body : tile.getBodies()) {
    for (auto [argument, operand] :
         llvm::zip(body->getArguments(), tile.getOperands()))
      aliases[argument] = operand;
    for (OpResult result : tile->getResults())
      if (Value base = findYielded(*body, result.getResultNumber()))
        aliases[base] = result;
    place(*body);
  }
}

void StorageMap::categorize(func::FuncOp function) {
  for (const Port &port : getResults(function, Role::Gradient)) {
    Value value = function.front().getTerminator()->getOperand(port.index);
    if (!storages[of(value)].persistent)
      storages[of(value)].category = Category::Gradient;
  }
  function.walk([&](Operation *op) {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      Storage &storage = storages[of(operand)];
      if (!producer || storage.category != Category::Workspace)
        continue;
      if (getPhase(producer) == Phase::Forward &&
          getPhase(op) != Phase::Forward)
        storage.category = Category::Saved;
      else if (getPhase(producer) == Phase::Backward &&
               getPhase(op) == Phase::Optimizer)
        storage.category = Category::Gradient;
    }
  });
}
