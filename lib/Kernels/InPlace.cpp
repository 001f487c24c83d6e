//===- InPlace.cpp - Results in the memory of what they replace -----------===//
// A result takes the memory of the argument that it replaces, or of an operand
// that nothing reads afterwards. Where it cannot, it is copied when everything
// else is done.
//===----------------------------------------------------------------------===//

#include "Storage.h"
#include "llvm/ADT/BitVector.h"

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
                   return shares(
                       launch.getOperands()[firstOperand + candidate]);
                 });
    firstOperand += kernel.getNumArguments();
    firstResult += kernel.getNumResults();
  }
  return false;
}

void StorageMap::placeInArguments(const Program &program) {
  func::FuncOp function = program.function;
  auto *terminator = function.front().getTerminator();
  for (Value value : terminator->getOperands())
    storages[of(value)].last = end; // Read afterwards.
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    Value value = terminator->getOperand(index);
    Storage &storage = storages[of(value)];
    if (!program.replaced[index])
      continue;
    Value argument = function.getArgument(*program.replaced[index]);
    if (of(argument) == of(value))
      continue;
    auto result = dyn_cast<OpResult>(findBase(value));
    unsigned made = result ? positions[result.getOwner()].first : 0;
    unsigned lastRead = storages[of(argument)].last;
    bool isFree = lastRead < made || (lastRead == made && result &&
                                      mayOverwrite(result, argument));
    if (isFree && result && !storage.persistent)
      storageOf[result] = of(argument);
    else
      ends.back().displaced.push_back(index);
  }
}

/// Lets results take the memory of operands that nothing reads afterwards.
void StorageMap::reuse(func::FuncOp function) {
  function.walk([&](LaunchOp launch) {
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
/// read after the program.
void StorageMap::orderCopies(const Program &program) {
  func::FuncOp function = program.function;
  const Replaced &replaced = program.replaced;
  auto &[displaced, copies, results, position] = ends.back();
  SmallVector<FinalCopy> pending;
  DenseMap<unsigned, unsigned> writers; // By storage: which copy overwrites it,
  DenseMap<unsigned, SmallVector<unsigned>> readers; // and which ones read it.
  ValueRange values = function.front().getTerminator()->getOperands();
  auto addCopy = [&](unsigned index, unsigned to) {
    unsigned from = of(values[index]);
    writers[to] = pending.size();
    readers[from].push_back(pending.size());
    pending.push_back({getResult(function, index)->name.str(),
                       cast<RankedTensorType>(values[index].getType()), from,
                       to});
  };
  for (unsigned index : displaced)
    addCopy(index, of(function.getArgument(*replaced[index])));
  for (auto [index, value] : llvm::enumerate(values)) {
    if (replaced[index]) {
      results.push_back(of(function.getArgument(*replaced[index])));
      continue;
    }
    results.push_back(of(value));
    if (!getResult(function, index) || !writers.contains(of(value)))
      continue;
    results.back() =
        add(getByteSize(value.getType()), Category::Workspace, false, end);
    addCopy(index, results.back());
  }

  llvm::BitVector made(pending.size());
  SmallVector<unsigned> ready;
  for (auto [index, copy] : llvm::enumerate(pending))
    if (!readers.contains(copy.to))
      ready.push_back(index);
  // Whoever still reads what was in `from` finds it in `now`.
  auto release = [&](unsigned from, unsigned now) {
    auto writer = writers.find(from);
    if (writer == writers.end() || made[writer->second])
      return;
    for (unsigned reader : readers[from])
      if (!made[reader])
        pending[reader].from = now;
    ready.push_back(writer->second);
  };
  for (unsigned first = 0; first < pending.size();) {
    if (ready.empty() && made[first]) {
      ++first;
      continue;
    }
    if (ready.empty()) {
      // All that are left go in circles: set aside what this one overwrites.
      const FinalCopy &copy = pending[first];
      unsigned aside =
          add(getByteSize(copy.type), Category::Workspace, false, end);
      copies.push_back({copy.name, copy.type, copy.to, aside});
      release(copy.to, aside);
    }
    unsigned next = ready.pop_back_val();
    made.set(next);
    copies.push_back(pending[next]);
    release(pending[next].from, pending[next].to);
  }
}
