//===- PairByValue.cpp - Assignment of gradients by value -----------------===//

#include "PairByValue.h"
#include "RandomPoint.h"
#include "binade/Autodiff/Differentiate.h"
#include "binade/IR/PortAttributes.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::binade;

/// How much equal gradients may differ, relative to their norm: f32 roundings
/// in another order.
static constexpr double kPairTolerance = 1e-3;

static bool areSame(const Tensor &found, const Tensor &own) {
  return getDistance(found.getFloats(), own.getFloats()) <=
         kPairTolerance * getNorm(own.getFloats());
}

Pairs mlir::binade::pairByValue(func::FuncOp function, unsigned loss,
                                ArrayRef<unsigned> results,
                                ArrayRef<BlockArgument> arguments) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(function.getLoc());
  OpBuilder b = OpBuilder::atBlockBegin(module->getBody());
  auto copy = cast<func::FuncOp>(b.clone(*function));
  // Suppress errors: the attempt may fail.
  ScopedDiagnosticHandler silent(function.getContext(),
                                 [](Diagnostic &) { return success(); });
  auto role = RoleAttr::get(function.getContext(), Role::Parameter);
  PortAttributes attributes(copy);
  for (BlockArgument argument : arguments)
    attributes.setOfArgument(argument.getArgNumber(), kRoleAttr, role);
  attributes.apply();
  unsigned before = copy.getNumResults();
  if (failed(differentiate(copy, loss)))
    return {Pairs::Unknown, {}};

  std::mt19937 generator;
  FailureOr<Outputs> outputs =
      evaluate(*module, copy.getSymName(), drawArguments(copy, 0.5, generator));
  if (failed(outputs))
    return {Pairs::Unknown, {}};
  SmallVector<std::string> all = getResultNames(copy);
  auto getTensor = [&](unsigned index) -> const Tensor & {
    return *outputs->values.at(all[index]);
  };
  // The derived gradient of each argument, and the largest norm.
  DenseMap<unsigned, unsigned> own;
  double largest = 0.0;
  for (const Port &port : getResults(copy, Role::Gradient)) {
    std::optional<Port> of = findArgument(copy, Role::Parameter, port.name);
    if (port.index < before || !of)
      continue;
    own[of->index] = port.index;
    largest = std::max(largest, getNorm(getTensor(port.index).getFloats()));
  }
  // Equal gradients are assigned in order.
  llvm::BitVector taken(arguments.size());
  Pairs pairs{Pairs::Gradients, {}};
  for (unsigned result : results) {
    std::optional<unsigned> &found = pairs.places.emplace_back();
    const Tensor &tensor = getTensor(result);
    if (getNorm(tensor.getFloats()) <=
        kPairTolerance * kPairTolerance * largest)
      continue;
    for (auto [place, argument] : llvm::enumerate(arguments))
      if (!found && !taken.test(place) &&
          own.contains(argument.getArgNumber()) &&
          copy.getResultTypes()[result] == argument.getType() &&
          areSame(tensor, getTensor(own.lookup(argument.getArgNumber()))))
        found = place;
    if (!found)
      return {Pairs::Others, {}};
    taken.set(*found);
  }
  return pairs;
}
