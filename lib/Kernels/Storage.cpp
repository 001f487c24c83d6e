//===- Storage.cpp - Where values live ------------------------------------===//

#include "Storage.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::plan::Category;

static constexpr uint64_t kAlignment = 64;

uint64_t mlir::binade::getByteSize(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() *
         llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
}

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
  if (element.isInteger(1))
    return DType::BOOL;
  if (element.isInteger(32))
    return DType::I32;
  if (element.isInteger(64))
    return DType::I64;
  if (element.isInteger(8))
    return DType::I8;
  assert(element.isInteger(16) && "a format that buffers cannot hold");
  return DType::I16;
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
  case Role::Gradient:
    return Category::Gradient;
  default:
    return Category::Scalar;
  }
}

bool mlir::binade::isView(Operation *op) {
  auto kernelOp = dyn_cast_or_null<KernelOpInterface>(op);
  return kernelOp && kernelOp.getSchedule() == Schedule::View &&
         op->getNumOperands() == 1;
}

/// What `value` is a view of, or `value` itself.
static Value findBase(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

Value mlir::binade::findYielded(TileOp tile, unsigned index) {
  ValueRange yielded = tile.getYield()->getOperands();
  Value base = findBase(yielded[index]);
  for (Value before : yielded.take_front(index))
    if (findBase(before) == base)
      return {};
  return base.getDefiningOp() ? base : Value();
}

StorageMap::StorageMap(func::FuncOp step, const PlanOptions &options)
    : options(options) {
  count(step.front());
  placeArguments(step);
  place(step.front());
  placeInArguments(step);
  reuse(step);
  categorize(step);
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
      count(region.front());
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

/// Whether iterations of `tile` write nothing in common: no sums, no status.
bool StorageMap::mayRunInParallel(TileOp tile) const {
  if (tile.getJoins() != tile->getNumResults() || findParallelAround(tile))
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
  if (isView(op)) {
    aliases[op->getResult(0)] = op->getOperand(0);
  } else {
    bool isConstant = op->hasTrait<OpTrait::ConstantLike>();
    for (Value result : op->getResults()) {
      if (aliases.contains(result))
        continue;
      storageOf[result] =
          add(getByteSize(result.getType()),
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

/// Pieces lie in the operands, and what is yielded in the results.
void StorageMap::placeTile(TileOp tile) {
  if (mayRunInParallel(tile))
    slots[tile] = std::min<int64_t>(tile.getCount(), options.threads);
  Block &body = tile.getBody().front();
  for (auto [argument, operand] :
       llvm::zip(body.getArguments(), tile.getOperands()))
    aliases[argument] = operand;
  for (OpResult result : tile->getResults())
    if (Value base = findYielded(tile, result.getResultNumber()))
      aliases[base] = result;
  place(body);
}

/// Whether `result` of a launch may take the memory of `operand`, which the
/// launch reads: the kernel of its segment says so.
bool StorageMap::mayOverwrite(OpResult result, Value operand) const {
  auto launch = dyn_cast<LaunchOp>(result.getOwner());
  if (!launch)
    return false;
  unsigned firstOperand = 0, firstResult = 0;
  for (auto symbol : launch.getKernels().getAsRange<FlatSymbolRefAttr>()) {
    auto kernel =
        SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(launch, symbol);
    auto shape = options.kernels.find(symbol.getValue());
    unsigned index = result.getResultNumber() - firstResult;
    if (shape != options.kernels.end() && index < kernel.getNumResults())
      return index < shape->second.inPlace.size() &&
             llvm::any_of(
                 shape->second.inPlace[index],
                 [&](unsigned candidate) {
                   return launch.getOperands()[firstOperand + candidate] ==
                          operand;
                 });
    firstOperand += kernel.getNumArguments();
    firstResult += kernel.getNumResults();
  }
  return false;
}

void StorageMap::placeInArguments(func::FuncOp step) {
  auto *terminator = step.front().getTerminator();
  for (unsigned index = 0; index < step.getNumResults(); ++index) {
    Value value = terminator->getOperand(index);
    Storage &storage = storages[of(value)];
    storage.last = end; // Read after the step.
    std::optional<Port> port = getResult(step, index);
    std::optional<Port> target =
        port ? findArgument(step, port->role, port->name) : std::nullopt;
    if (!target)
      continue;
    Value argument = step.getArgument(target->index);
    if (of(argument) == of(value))
      continue;
    Operation *producer = value.getDefiningOp();
    unsigned made = producer ? positions[producer].first : 0;
    unsigned lastRead = storages[of(argument)].last;
    bool isFree =
        lastRead < made || (lastRead == made && isa<OpResult>(value) &&
                            mayOverwrite(cast<OpResult>(value), argument));
    bool isOwn = producer && !isView(producer) && !storage.persistent;
    if (isFree && isOwn)
      storageOf[value] = of(argument);
    else
      copies.emplace_back(value, argument);
  }
}

/// Lets results take the memory of operands that nothing reads afterwards.
void StorageMap::reuse(func::FuncOp step) {
  step.walk([&](LaunchOp launch) {
    for (OpResult result : launch->getResults()) {
      Storage &own = storages[of(result)];
      unsigned now = positions[launch].first;
      if (aliases.contains(result) || own.persistent || own.first != now)
        continue;
      for (Value operand : launch.getOperands()) {
        Storage &other = storages[of(operand)];
        auto shares = [&](Value x) { return of(x) == of(operand); };
        if (other.persistent || other.last != now || other.first == now ||
            other.bytes != own.bytes || other.tile != own.tile ||
            llvm::count_if(launch.getOperands(), shares) != 1 ||
            !mayOverwrite(result, operand))
          continue;
        other.last = own.last;
        own = Storage();
        aliases[result] = operand;
        storageOf.erase(result);
        break;
      }
    }
  });
}

void StorageMap::categorize(func::FuncOp step) {
  for (const Port &port : getResults(step, Role::Gradient)) {
    Value value = step.front().getTerminator()->getOperand(port.index);
    if (!storages[of(value)].persistent)
      storages[of(value)].category = Category::Gradient;
  }
  step.walk([&](Operation *op) {
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

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// Gives each of `moving` the lowest offset from `base` that is free while it
/// lives, the largest first. Returns where they end.
uint64_t StorageMap::pack(std::vector<unsigned> moving, uint64_t base) {
  llvm::stable_sort(moving, [&](unsigned l, unsigned r) {
    return storages[l].bytes > storages[r].bytes;
  });
  uint64_t top = base;
  std::vector<unsigned> placed;
  for (unsigned index : moving) {
    Storage &storage = storages[index];
    SmallVector<std::pair<uint64_t, uint64_t>> taken;
    for (unsigned other : placed)
      if (storages[other].first <= storage.last &&
          storage.first <= storages[other].last)
        taken.emplace_back(
            storages[other].offset,
            storages[other].offset +
                llvm::alignTo(storages[other].bytes, kAlignment));
    llvm::sort(taken);
    uint64_t offset = base;
    for (auto [begin, finish] : taken) {
      if (begin >= offset + storage.bytes)
        break;
      offset = std::max(offset, finish);
    }
    storage.offset = offset;
    top = std::max(top, offset + llvm::alignTo(storage.bytes, kAlignment));
    placed.push_back(index);
  }
  return top;
}

uint64_t StorageMap::assignOffsets() {
  // Values that moved into an argument leave their own storage unused.
  DenseSet<unsigned> used;
  for (auto [value, storage] : storageOf)
    used.insert(storage);
  uint64_t top = 0;
  std::vector<unsigned> moving;
  // Iterations of a parallel tile are at different ops at the same time: what
  // is inside of it shares memory within its slot only.
  llvm::MapVector<Operation *, std::vector<unsigned>> inside;
  for (auto [index, storage] : llvm::enumerate(storages)) {
    bool isScratch = storage.first == storage.last && !used.contains(index);
    if (!used.contains(index) && !isScratch)
      storage.bytes = 0;
    if (storage.bytes == 0)
      continue;
    if (storage.tile) {
      inside[storage.tile].push_back(index);
    } else if (!storage.persistent) {
      moving.push_back(index);
    } else {
      storage.offset = top;
      top += llvm::alignTo(storage.bytes, kAlignment);
    }
  }
  SmallVector<unsigned> frames;
  for (auto &[tile, members] : inside) {
    uint64_t slot = pack(members, 0);
    auto [begin, finish] = positions.lookup(tile);
    frames.push_back(add(slot * slots.lookup(tile), Category::Workspace,
                         /*persistent=*/false, begin));
    storages.back().last = finish;
    for (unsigned member : members)
      storages[member].slot = slot;
    moving.push_back(frames.back());
  }
  top = pack(std::move(moving), top);
  for (auto [frame, members] : llvm::zip(frames, inside))
    for (unsigned member : members.second)
      storages[member].offset += storages[frame].offset;
  return top;
}

std::map<Category, uint64_t> StorageMap::getLedger(uint64_t arenaBytes) const {
  std::vector<int64_t> change(end + 2, 0);
  for (const Storage &storage : storages)
    if (!storage.persistent && !storage.tile) {
      change[storage.first] += storage.bytes;
      change[storage.last + 1] -= storage.bytes;
    }
  unsigned fullest = 0;
  int64_t live = 0, most = 0;
  for (unsigned moment = 0; moment <= end; ++moment)
    if ((live += change[moment]) > most) {
      most = live;
      fullest = moment;
    }
  std::map<Category, uint64_t> ledger;
  uint64_t total = 0;
  for (const Storage &storage : storages)
    if (storage.bytes && !storage.tile &&
        (storage.persistent ||
         (storage.first <= fullest && fullest <= storage.last))) {
      ledger[storage.category] += storage.bytes;
      total += storage.bytes;
    }
  ledger[Category::Workspace] += arenaBytes - total;
  return ledger;
}
