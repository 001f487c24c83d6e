//===- InPlace.cpp - Results in the memory of arguments and operands ------===//
//
// A result takes the memory of the argument that it replaces, or of an operand
// that nothing reads afterwards. If it cannot take the argument's memory, it is
// copied at the end of the program.
//
//===----------------------------------------------------------------------===//

#include "../Fusion/Segments.h"
#include "Storage.h"
#include "binade/IR/ExchangeOps.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::plan::Category;

namespace {
/// Which results of a launch may take the memory of which operands. The kernel
/// of the result's segment decides, and no other segment may read the operand.
class Overwrites {
public:
  Overwrites(LaunchOp launch, const StorageMap &storages,
             const llvm::StringMap<KernelShape> &shapes);

  bool allow(OpResult result, unsigned storage);

private:
  LaunchOp launch;
  const StorageMap &storages;
  /// For each result, the first operand of its segment, and the operands of the
  /// segment whose memory it may take.
  SmallVector<std::pair<unsigned, ArrayRef<unsigned>>> candidates;
  DenseMap<unsigned, unsigned> reads; ///< Number of operands per storage.
};
} // namespace

Overwrites::Overwrites(LaunchOp launch, const StorageMap &storages,
                       const llvm::StringMap<KernelShape> &shapes)
    : launch(launch), storages(storages) {
  for (Value operand : launch.getOperands())
    ++reads[storages.of(operand)];
  candidates.resize(launch->getNumResults());
  for (LaunchSegment segment : getSegments(launch).list) {
    auto shape = shapes.find(segment.kernel.getName());
    if (shape == shapes.end())
      continue;
    const auto &inPlace = shape->second.inPlace;
    for (unsigned i = 0; i < segment.numResults && i < inPlace.size(); ++i)
      candidates[segment.firstResult + i] = {segment.firstOperand, inPlace[i]};
  }
}

bool Overwrites::allow(OpResult result, unsigned storage) {
  auto [first, operands] = candidates[result.getResultNumber()];
  return reads.lookup(storage) == 1 &&
         llvm::any_of(operands, [&, first = first](unsigned operand) {
           return storages.of(launch.getOperands()[first + operand]) == storage;
         });
}

void StorageMap::placeInArguments(const Program &program) {
  func::FuncOp function = program.function;
  auto *terminator = function.front().getTerminator();
  for (Value value : terminator->getOperands())
    storages[of(value)].last = end; // Read after the program.
  // Only readers of arguments whose result has not moved are queried, so that
  // results that move in the meantime do not invalidate this.
  DenseMap<Operation *, Overwrites> known;
  auto mayOverwrite = [&](OpResult result, Value argument) {
    auto launch = dyn_cast<LaunchOp>(result.getOwner());
    if (!launch)
      return false;
    auto found = known.try_emplace(launch, launch, *this, options.kernels);
    return found.first->second.allow(result, of(argument));
  };
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
    bool mayMove = !storage.persistent && !aliases.contains(result);
    if (isFree && result && mayMove)
      storageOf[result] = of(argument);
    else
      ends.back().displaced.push_back(index);
  }
}

/// Makes the gradients that `exchange` sums adjacent in persistent memory. A
/// gradient takes the memory of its accumulator if its producer reads that
/// last.
void StorageMap::placeExchanged(func::FuncOp function) {
  unsigned place = 0;
  for (auto exchange : function.front().getOps<ExchangeOp>())
    for (Value gradient : exchange.getGradients()) {
      auto result = dyn_cast<OpResult>(findBase(gradient));
      auto launch = result ? dyn_cast<LaunchOp>(result.getOwner()) : LaunchOp();
      if (launch && !aliases.contains(result)) {
        Overwrites overwrites(launch, *this, options.kernels);
        for (Value operand : launch.getOperands()) {
          auto argument = dyn_cast<BlockArgument>(operand);
          std::optional<Port> port =
              argument ? getArgument(function, argument.getArgNumber())
                       : std::nullopt;
          if (port && port->role == Role::Accumulator &&
              getByteSize(operand.getType()) == storages[of(result)].bytes &&
              storages[of(operand)].last == positions[launch].first &&
              overwrites.allow(result, of(operand))) {
            storageOf[result] = of(operand);
            break;
          }
        }
      }
      Storage &storage = storages[of(gradient)];
      storage.persistent = true;
      storage.category = Category::Gradient;
      storage.exchanged = ++place;
    }
}

/// Lets results take the memory of operands that nothing reads afterwards.
void StorageMap::reuse(func::FuncOp function) {
  function.walk([&](LaunchOp launch) {
    Overwrites overwrites(launch, *this, options.kernels);
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
            !overwrites.allow(result, of(operand)))
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

/// Orders copies such that none overwrites what a later copy reads, or what is
/// read after the program.
void StorageMap::orderCopies(const Program &program) {
  func::FuncOp function = program.function;
  const Replaced &replaced = program.replaced;
  auto &[displaced, copies, results, position] = ends.back();
  SmallVector<FinalCopy> pending;
  DenseMap<unsigned, unsigned> writers; // The copy that overwrites a storage,
  DenseMap<unsigned, SmallVector<unsigned>> readers; // and those that read it.
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
  // The remaining readers of `from` find its value in `now`.
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
      // Only cycles are left: save what this copy overwrites.
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
