//===- FindUpdates.cpp - Detection of optimizer updates -------------------===//

#include "FindUpdates.h"
#include "Dataflow.h"
#include "binade/IR/Movement.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;

SmallVector<Value> mlir::binade::getNumbers(const StepParts &parts) {
  SmallVector<Value> numbers(parts.given.begin(), parts.given.end());
  if (parts.step)
    numbers.push_back(parts.step->argument);
  return numbers;
}

bool mlir::binade::isKnown(Value value, ArrayRef<Value> numbers) {
  if (llvm::is_contained(numbers, value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  return (isElementwise(op) || getScalarSource(value)) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isKnown(operand, numbers); });
}

namespace {
/// Finds the parts of a step under the assumption that result `loss` is the
/// loss.
class StepFinder {
public:
  StepFinder(func::FuncOp function, unsigned loss)
      : function(function), loss(loss),
        forward(getCone(getResultValue(function, loss))) {}

  StepParts find();
  SmallVector<Replacement> findBuffers();

private:
  void pair();
  void chooseStep();
  StepParts split();
  SmallVector<BlockArgument> findNumbers();
  DenseSet<Value> getKept(const StepParts &parts);
  bool canRemoveUpdates(const StepParts &parts, const DenseSet<Value> &kept);
  void collect(unsigned result);
  bool counts(const Replacement &replacement) const;
  SmallVector<Replacement> getStates(const Replacement &parameter) const;
  DenseSet<Value> getFunctions(ArrayRef<Value> own) const;
  SetVector<Value> getRead(const Update &update) const;
  Value findGradient(const Update &update) const;
  bool reaches(unsigned result, Value argument) const {
    auto found = reached.find(result);
    return found != reached.end() && found->second.contains(argument);
  }

  func::FuncOp function;
  unsigned loss;
  DenseSet<Value> forward;
  /// The arguments of its type of which a result is an elementwise function,
  /// with the minimum number of operations between.
  using Distances = llvm::MapVector<Value, unsigned>;
  llvm::MapVector<unsigned, Distances> reached;
  SmallVector<Replacement> pairs;
  std::optional<Replacement> step;
  SmallVector<BlockArgument> given;
  SmallVector<Value> numbers; ///< The step and the given scalars.
};
} // namespace

/// Finds the arguments that `result` reaches, breadth first, through
/// elementwise operations outside the forward pass.
void StepFinder::collect(unsigned result) {
  Value root = getResultValue(function, result);
  DenseSet<Value> seen = {root};
  SmallVector<Value> level = {root};
  for (unsigned distance = 0; !level.empty(); ++distance) {
    SmallVector<Value> next;
    for (Value value : level) {
      Operation *op = value.getDefiningOp();
      if (!op) {
        if (value.getType() == root.getType())
          reached[result].insert({value, distance});
        continue;
      }
      if (forward.contains(value) ||
          !(isElementwise(op) || getScalarSource(value)))
        continue;
      for (Value operand : op->getOperands())
        if (seen.insert(operand).second)
          next.push_back(operand);
    }
    level = std::move(next);
  }
}

/// Pairs results with the arguments that they replace. A result with a single
/// candidate gets it, which removes the candidate from the other results. If
/// all results have several, as when a gradient reads its parameter, the
/// nearest pair is chosen.
void StepFinder::pair() {
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (index != loss)
      collect(index);
  llvm::MapVector<unsigned, Distances> open = reached;
  while (true) {
    open.remove_if([](auto &entry) { return entry.second.empty(); });
    if (open.empty())
      break;
    auto getRank = [](const auto &entry) {
      unsigned nearest = ~0u;
      for (auto &[argument, distance] : entry.second)
        nearest = std::min(nearest, distance);
      return std::pair(entry.second.size() > 1, nearest);
    };
    auto *best = llvm::min_element(open, [&](const auto &a, const auto &b) {
      return getRank(a) < getRank(b);
    });
    auto argument = cast<BlockArgument>(
        llvm::min_element(best->second, llvm::less_second())->first);
    pairs.push_back({argument, best->first});
    best->second.clear();
    for (auto &[other, left] : open)
      left.erase(argument);
  }
  llvm::sort(pairs, [](const Replacement &a, const Replacement &b) {
    return a.argument.getArgNumber() < b.argument.getArgNumber();
  });
}

/// Whether `replacement` increments by 1 an argument that the loss does not
/// depend on.
bool StepFinder::counts(const Replacement &replacement) const {
  auto sum =
      getResultValue(function, replacement.result).getDefiningOp<AddOp>();
  if (!sum || forward.contains(replacement.argument) ||
      getNumElements(replacement.argument) != 1)
    return false;
  Value other =
      sum.getLhs() == replacement.argument ? sum.getRhs() : sum.getLhs();
  return matchPattern(other, m_One()) || matchPattern(other, m_OneFloat());
}

SmallVector<Replacement>
StepFinder::getStates(const Replacement &parameter) const {
  SmallVector<Replacement> states;
  for (const Replacement &pair : pairs)
    if (pair.argument != parameter.argument &&
        !(step && pair.argument == step->argument) &&
        pair.argument.getType() == parameter.argument.getType() &&
        !forward.contains(pair.argument) &&
        (reaches(parameter.result, pair.argument) ||
         reaches(pair.result, parameter.argument)))
      states.push_back(pair);
  return states;
}

/// Returns the values outside the forward pass that are elementwise functions
/// of `own` and other values.
DenseSet<Value> StepFinder::getFunctions(ArrayRef<Value> own) const {
  DenseSet<Value> functions(own.begin(), own.end());
  SmallVector<Value> pending(own);
  while (!pending.empty())
    for (Operation *user : pending.pop_back_val().getUsers())
      if (isElementwise(user) && !forward.contains(user->getResult(0)) &&
          functions.insert(user->getResult(0)).second)
        pending.push_back(user->getResult(0));
  return functions;
}

/// Returns the values that an update reads, other than its parameter and
/// states, their functions, and scalars.
SetVector<Value> StepFinder::getRead(const Update &update) const {
  SmallVector<Value> own = {update.parameter.argument};
  SmallVector<Value> pending = {
      getResultValue(function, update.parameter.result)};
  for (const Replacement &state : update.states) {
    own.push_back(state.argument);
    pending.push_back(getResultValue(function, state.result));
  }
  DenseSet<Value> functions = getFunctions(own);
  DenseSet<Value> seen(pending.begin(), pending.end());
  SetVector<Value> read;
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!functions.contains(value)) {
      if (!isKnown(value, numbers))
        read.insert(value);
      continue;
    }
    if (Operation *op = value.getDefiningOp())
      for (Value operand : op->getOperands())
        if (seen.insert(operand).second)
          pending.push_back(operand);
  }
  return read;
}

/// Returns the gradient of an update: replaces the last of the values that it
/// reads by that op's operands until one value is left. If it read a single
/// value from the start, follows it further through scalings. Returns null if
/// no value of the parameter's type is found.
Value StepFinder::findGradient(const Update &update) const {
  SetVector<Value> left = getRead(update);
  bool isAlone = left.size() == 1;
  while (!left.empty()) {
    Operation *last = nullptr;
    for (Value value : left) {
      Operation *op = value.getDefiningOp();
      if (!op)
        return {};
      if (!last || last->isBeforeInBlock(op))
        last = op;
    }
    SetVector<Value> operands;
    for (Value operand : last->getOperands())
      if (!isKnown(operand, numbers))
        operands.insert(operand);
    bool isOpen = isElementwise(last) && !isa<CastOp>(last) &&
                  !forward.contains(last->getResult(0));
    bool isScaled = isAlone && isa<MulOp, DivOp, NegOp>(last) &&
                    operands.size() == 1 && isOpen &&
                    !forward.contains(operands.front());
    if (left.size() == 1 && !isScaled)
      return left.front().getType() == update.parameter.argument.getType()
                 ? left.front()
                 : Value();
    if (!isOpen)
      return {};
    left.remove(last->getResult(0));
    left.insert_range(operands);
  }
  return {};
}

/// Returns the values that gradients and the remaining results depend on.
DenseSet<Value> StepFinder::getKept(const StepParts &parts) {
  llvm::SmallDenseSet<unsigned> goes;
  SmallVector<Value> stays;
  if (parts.step)
    goes.insert(parts.step->result);
  for (const Update &update : parts.updates) {
    stays.push_back(update.gradient);
    goes.insert(update.parameter.result);
    for (const Replacement &state : update.states)
      goes.insert(state.result);
  }
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (!goes.contains(index))
      stays.push_back(getResultValue(function, index));
  return getCone(stays);
}

/// Whether no argument that is removed with the updates is in `kept`.
bool StepFinder::canRemoveUpdates(const StepParts &parts,
                                  const DenseSet<Value> &kept) {
  return !(parts.step && kept.contains(parts.step->argument)) &&
         llvm::none_of(parts.updates, [&](const Update &update) {
           return llvm::any_of(update.states, [&](const Replacement &state) {
             return kept.contains(state.argument);
           });
         });
}

/// Returns inputs of one element that may be learning rates or the step count.
SmallVector<BlockArgument> StepFinder::findNumbers() {
  SmallVector<BlockArgument> found, integers;
  for (const Port &port : getArguments(function, Role::Batch)) {
    BlockArgument argument = function.getArgument(port.index);
    auto isReplaced = [&](const Replacement &pair) {
      return pair.argument == argument;
    };
    if (getNumElements(argument) != 1 || argument.use_empty() ||
        forward.contains(argument) || llvm::any_of(pairs, isReplaced))
      continue;
    Type element = getTensor(argument).getElementType();
    if (element.isF32())
      found.push_back(argument);
    else if (element.isInteger(32) || element.isInteger(64))
      integers.push_back(argument);
  }
  // With several integers, it is unknown which one counts steps.
  if (!step && integers.size() == 1)
    found.push_back(integers.front());
  return found;
}

void StepFinder::chooseStep() {
  // Prefer a counter that other ops read to one that counts something else,
  // such as batches.
  auto isRead = [&](const Replacement &pair) {
    return !pair.argument.hasOneUse() ||
           !getResultValue(function, pair.result).hasOneUse();
  };
  for (const Replacement &pair : pairs)
    if (counts(pair) && (!step || !isRead(*step)))
      step = pair;
}

/// Returns the parts under the assumption that the `given` scalars belong to
/// the updates.
StepParts StepFinder::split() {
  StepParts parts{loss, {}, step, {}, given};
  numbers = getNumbers(parts);
  DenseSet<Value> taken;
  for (const Replacement &pair : pairs) {
    Value updated = getResultValue(function, pair.result);
    if (!forward.contains(pair.argument) || forward.contains(updated) ||
        !isa<FloatType>(getTensor(updated).getElementType()))
      continue;
    Update update{pair, Value(), getStates(pair)};
    update.gradient = findGradient(update);
    if (!update.gradient)
      continue;
    taken.insert(pair.argument);
    for (const Replacement &state : update.states)
      taken.insert(state.argument);
    parts.updates.push_back(std::move(update));
  }
  for (const Replacement &pair : pairs)
    if (!taken.contains(pair.argument) &&
        !(step && pair.argument == step->argument))
      parts.buffers.push_back(pair);
  return parts;
}

StepParts StepFinder::find() {
  pair();
  chooseStep();
  given = findNumbers();
  while (true) {
    StepParts parts = split();
    DenseSet<Value> kept = getKept(parts);
    // Drop given scalars that remaining results read, such as a gradient seed.
    size_t before = given.size();
    llvm::erase_if(given, [&](Value x) { return kept.contains(x); });
    if (given.size() < before)
      continue;
    if (!canRemoveUpdates(parts, kept))
      parts.updates.clear();
    return parts;
  }
}

SmallVector<Replacement> StepFinder::findBuffers() {
  pair();
  llvm::erase_if(pairs, [&](const Replacement &pair) {
    return forward.contains(pair.argument);
  });
  return pairs;
}

SmallVector<Replacement> mlir::binade::findBuffers(func::FuncOp function,
                                                   unsigned loss) {
  return StepFinder(function, loss).findBuffers();
}

std::optional<StepParts> mlir::binade::findStep(func::FuncOp function) {
  if (auto metrics = getResults(function, Role::Metric); !metrics.empty()) {
    StepParts parts = StepFinder(function, metrics.front().index).find();
    return parts.updates.empty() ? std::nullopt : std::optional(parts);
  }
  std::optional<StepParts> best;
  bool isUnique = false;
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    Value value = getResultValue(function, index);
    if (getNumElements(value) != 1 ||
        !isa<FloatType>(getTensor(value).getElementType()))
      continue;
    StepParts parts = StepFinder(function, index).find();
    size_t most = best ? best->updates.size() : 0;
    if (parts.updates.size() < most || parts.updates.empty())
      continue;
    isUnique = parts.updates.size() > most;
    best = std::move(parts);
  }
  return isUnique ? best : std::nullopt;
}
