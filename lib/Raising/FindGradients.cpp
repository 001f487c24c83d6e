//===- FindGradients.cpp - Detection of a loss with gradients -------------===//

#include "FindGradients.h"
#include "Dataflow.h"
#include "FindSeed.h"
#include "PairByValue.h"
#include "RandomPoint.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Names.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Finds the gradients under the assumption that result `loss` is the loss.
class GradientFinder {
public:
  GradientFinder(func::FuncOp function, unsigned loss)
      : function(function), loss(loss),
        forward(getCone(getResultValue(function, loss))),
        parts{loss, {}, std::nullopt, findBuffers(function, loss)} {}

  std::optional<StepParts> find();

private:
  /// Arguments and candidate gradients of one type, in order.
  struct TypeGroup {
    SmallVector<BlockArgument> arguments;
    SmallVector<unsigned> gradients;
  };
  void sort();
  bool order(TypeGroup &alike, ArrayRef<std::optional<unsigned>> found);

  func::FuncOp function;
  unsigned loss;
  DenseSet<Value> forward;
  llvm::MapVector<Type, TypeGroup> types;
  StepParts parts;
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
        llvm::none_of(parts.buffers, [&](const Replacement &buffer) {
          return buffer.result == index;
        }))
      if (auto *found = types.find(value.getType()); found != types.end())
        found->second.gradients.push_back(index);
}

/// Permutes `alike.arguments` to the order of their gradients; arguments
/// without a gradient are dropped. `found` has the index of the argument of
/// each gradient, if it is known; the others are assigned in order.
bool GradientFinder::order(TypeGroup &alike,
                           ArrayRef<std::optional<unsigned>> found) {
  llvm::BitVector taken(alike.arguments.size());
  for (std::optional<unsigned> place : found)
    if (place)
      taken.set(*place);
  size_t open = llvm::count(found, std::nullopt);
  if (open > 0 && open != alike.arguments.size() - taken.count())
    return false;
  if (open > 1 && parts.isEvaluated)
    parts.warnings.push_back(std::to_string(open) +
                             " gradients of one type are 0 up to rounding and "
                             "are assigned to arguments by order, from " +
                             describe(alike.arguments.front()) + " on");
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
  SmallVector<unsigned> gradients;
  SmallVector<BlockArgument> arguments;
  types.remove_if([](auto &entry) { return entry.second.gradients.empty(); });
  for (auto &[type, alike] : types) {
    if (alike.gradients.size() > alike.arguments.size())
      return std::nullopt;
    llvm::append_range(gradients, alike.gradients);
    llvm::append_range(arguments, alike.arguments);
  }
  if (gradients.empty())
    return std::nullopt;
  Pairs pairs{Pairs::Unknown, {}};
  Cost cost = estimateCost(function);
  if (cost == Cost::Large)
    emitRemark(function.getLoc())
        << "its gradients are compared with those that Binade derives, which "
           "may take a minute";
  if (cost != Cost::TooLarge)
    pairs = pairByValue(function, loss, gradients, arguments);
  if (pairs.kind == Pairs::Others)
    return std::nullopt;
  parts.isEvaluated = pairs.kind == Pairs::Gradients;
  if (!parts.isEvaluated)
    parts.warnings.push_back(
        "assigns gradients to arguments by their types and order, because the "
        "graph is too large to be evaluated or cannot be evaluated");
  pairs.places.resize(gradients.size());

  ArrayRef<std::optional<unsigned>> places = pairs.places;
  unsigned first = 0;
  for (auto &[type, alike] : types) {
    unsigned count = alike.arguments.size();
    SmallVector<std::optional<unsigned>> own;
    for (std::optional<unsigned> place :
         places.take_front(alike.gradients.size()))
      own.push_back(place ? std::optional(*place - first) : std::nullopt);
    places = places.drop_front(alike.gradients.size());
    first += count;
    if (!order(alike, own))
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
