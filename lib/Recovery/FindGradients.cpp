//===- FindGradients.cpp - A loss with its gradients ----------------------===//

#include "FindGradients.h"
#include "Dataflow.h"
#include "FindSeed.h"
#include "PairByValue.h"
#include "binade/IR/Movement.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// One attempt: that `loss` is the loss.
class GradientFinder {
public:
  GradientFinder(func::FuncOp function, unsigned loss)
      : function(function), loss(loss),
        forward(getCone(getResultValue(function, loss))),
        buffers(findBuffers(function, loss)) {}

  std::optional<StepParts> find();

private:
  /// Arguments and gradients of one type, in their order.
  struct Alike {
    SmallVector<BlockArgument> arguments;
    SmallVector<unsigned> gradients;
  };
  void sort();
  bool pair(Alike &alike);

  func::FuncOp function;
  unsigned loss;
  DenseSet<Value> forward;
  SmallVector<Replacement> buffers;
  llvm::MapVector<Type, Alike> types;
};
} // namespace

void GradientFinder::sort() {
  for (BlockArgument argument : function.getArguments())
    if (forward.contains(argument) &&
        isa<FloatType>(getTensor(argument).getElementType()))
      types[argument.getType()].arguments.push_back(argument);
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (Value value = getResultValue(function, index);
        index != loss && !forward.contains(value) && value.getDefiningOp() &&
        llvm::none_of(buffers, [&](const Replacement &buffer) {
          return buffer.result == index;
        }))
      if (auto *found = types.find(value.getType()); found != types.end())
        found->second.gradients.push_back(index);
}

/// Orders `alike.arguments` as their gradients; those without one are left out.
bool GradientFinder::pair(Alike &alike) {
  size_t count = alike.gradients.size();
  if (count > alike.arguments.size())
    return false;
  if (alike.arguments.size() == 1)
    return true;
  SmallVector<std::optional<unsigned>> found;
  if (isSmall(function))
    found = pairByValue(function, loss, alike.gradients, alike.arguments);
  llvm::BitVector taken(alike.arguments.size());
  for (std::optional<unsigned> place : found) {
    if (place && taken.test(*place))
      return false;
    if (place)
      taken.set(*place);
  }
  // What is 0 but for roundings has no other sign than its place.
  found.resize(count);
  size_t open = llvm::count(found, std::nullopt);
  if (open > 0 && open != alike.arguments.size() - taken.count())
    return false;
  if (open > 1)
    emitWarning(function.getLoc())
        << open << " gradients of type " << alike.arguments.front().getType()
        << " belong to arguments by their order alone";
  SmallVector<BlockArgument> ordered;
  for (std::optional<unsigned> place : found) {
    unsigned chosen = place ? *place : taken.find_first_unset();
    taken.set(chosen);
    ordered.push_back(alike.arguments[chosen]);
  }
  alike.arguments = ordered;
  return true;
}

std::optional<StepParts> GradientFinder::find() {
  sort();
  StepParts parts{loss, {}, std::nullopt, buffers};
  for (auto &[type, alike] : types) {
    if (alike.gradients.empty())
      continue;
    if (!pair(alike))
      return std::nullopt;
    for (auto [argument, result] : llvm::zip(alike.arguments, alike.gradients))
      parts.updates.push_back(
          {{argument, result}, getResultValue(function, result), {}});
  }
  llvm::sort(parts.updates, [](const Update &a, const Update &b) {
    return a.parameter.argument.getArgNumber() <
           b.parameter.argument.getArgNumber();
  });
  return parts;
}

std::optional<StepParts> mlir::binade::findGradients(func::FuncOp function) {
  SmallVector<unsigned> losses;
  for (const Port &port : getResults(function, Role::Metric))
    losses.push_back(port.index);
  for (unsigned index = 0; losses.empty() && index < function.getNumResults();
       ++index)
    if (Value value = getResultValue(function, index);
        getNumElements(value) == 1 &&
        isa<FloatType>(getTensor(value).getElementType()))
      losses.push_back(index);
  for (unsigned loss : losses)
    if (auto parts = GradientFinder(function, loss).find();
        parts && !parts->updates.empty())
      return parts;
  return std::nullopt;
}
