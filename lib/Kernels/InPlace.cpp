//===- InPlace.cpp - Results in the memory of what they replace -----------===//
// A result takes the memory of the argument that it replaces, or of an operand
// that nothing reads afterwards. Where it cannot, it is copied when everything
// else is done.
//===----------------------------------------------------------------------===//

#include "Storage.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::plan::Category;

/// Whether `result` of a launch may take the memory of `operand`, which the
/// launch reads: the kernel of its segment says so, and no other segment reads
/// it too.
bool StorageMap::mayOverwrite(OpResult result, Value operand) const {
  auto launch = dyn_cast<LaunchOp>(result.getOwner());
  auto shares = [&](Value x) { return of(x) == of(operand); };
  if (!launch || llvm::count_if(launch.getOperands(), shares) != 1)
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
  for (Value value : terminator->getOperands())
    storages[of(value)].last = end; // Read after the step.
  for (unsigned index = 0; index < step.getNumResults(); ++index) {
    Value value = terminator->getOperand(index);
    Storage &storage = storages[of(value)];
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
      displaced.emplace_back(value, argument);
  }
}

/// Lets results take the memory of operands that nothing reads afterwards.
void StorageMap::reuse(func::FuncOp step) {
  step.walk([&](LaunchOp launch) {
    for (OpResult result : launch->getResults()) {
      Storage &own = storages[of(result)];
      unsigned now = positions[launch].first;
      if (aliases.contains(result) || own.persistent || own.first != now ||
          own.last == now)
        continue;
      for (Value operand : launch.getOperands()) {
        Storage &other = storages[of(operand)];
        if (other.persistent || other.last != now || other.first == now ||
            other.bytes != own.bytes || other.tile != own.tile ||
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

/// Orders copies so that none overwrites what a later one reads, or what is
/// read after the step.
void StorageMap::orderCopies(func::FuncOp step) {
  SmallVector<FinalCopy> pending;
  DenseMap<unsigned, unsigned> readers;
  DenseSet<unsigned> written;
  auto addCopy = [&](Value value, unsigned to) {
    auto type = cast<RankedTensorType>(value.getType());
    pending.push_back({type, of(value), to});
    ++readers[of(value)];
    written.insert(to);
  };
  for (auto [value, argument] : displaced)
    addCopy(value, of(argument));
  for (auto [index, value] :
       llvm::enumerate(step.front().getTerminator()->getOperands())) {
    results.push_back(of(value));
    std::optional<Port> port = getResult(step, index);
    if (!port || findArgument(step, port->role, port->name) ||
        !written.contains(of(value)))
      continue;
    results.back() =
        add(getByteSize(value.getType()), Category::Workspace, false, end);
    addCopy(value, results.back());
  }
  while (!pending.empty()) {
    auto *next = llvm::find_if(pending, [&](const FinalCopy &copy) {
      return readers.lookup(copy.to) == 0;
    });
    if (next != pending.end()) {
      --readers[next->from];
      copies.push_back(*next);
      pending.erase(next);
      continue;
    }
    // All that are left go in circles: set aside what the first one overwrites.
    unsigned old = pending.front().to;
    RankedTensorType type = pending.front().type;
    unsigned aside = add(getByteSize(type), Category::Workspace, false, end);
    copies.push_back({type, old, aside});
    readers[aside] = std::exchange(readers[old], 0);
    for (FinalCopy &copy : pending)
      if (copy.from == old)
        copy.from = aside;
  }
}
