//===- PairByValue.cpp - Whose gradient is whose, by numbers --------------===//

#include "PairByValue.h"
#include "binade/IR/Differentiate.h"
#include "binade/Reference/Interpreter.h"
#include "mlir/IR/IRMapping.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace mlir::binade;

/// Products that the reference computes in seconds.
static constexpr int64_t kMostProducts = 2'000'000'000;

/// By how much gradients that are the same may differ, as a share of their
/// norm: roundings of f32, in another order.
static constexpr double kTolerance = 1e-3;

bool mlir::binade::isSmall(func::FuncOp function) {
  int64_t products = 0;
  function.walk([&](PrecisionOpInterface op) {
    products += op.countProducts().value_or(0);
  });
  return products <= kMostProducts;
}

/// Numbers for an argument: integers are 0 or 1, which name a row or a class of
/// every table that has two.
static TensorRef draw(RankedTensorType type, std::mt19937 &generator) {
  auto tensor = std::make_shared<Tensor>(type);
  // Bits alone: distributions of the standard library are not the same
  // everywhere.
  auto uniform = [&] { return generator() * 0x1p-32; };
  for (double &value : tensor->getFloats())
    value = uniform() - 0.5;
  for (int64_t &value : tensor->getIntegers())
    value = generator() >> 31;
  return tensor;
}

static double getNorm(ArrayRef<double> x) {
  double sum = 0.0;
  for (double value : x)
    sum += value * value;
  return std::sqrt(sum);
}

static bool areSame(const Tensor &found, const Tensor &own) {
  SmallVector<double> difference;
  for (auto [x, y] : llvm::zip_equal(found.getFloats(), own.getFloats()))
    difference.push_back(x - y);
  return getNorm(difference) <= kTolerance * getNorm(own.getFloats());
}

Pairs mlir::binade::pairByValue(func::FuncOp function, unsigned loss,
                                ArrayRef<unsigned> results,
                                ArrayRef<BlockArgument> arguments) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(function.getLoc());
  OpBuilder b = OpBuilder::atBlockBegin(module->getBody());
  auto copy = cast<func::FuncOp>(b.clone(*function));
  // An attempt may fail, and says nothing then.
  ScopedDiagnosticHandler silent(function.getContext(),
                                 [](Diagnostic &) { return success(); });
  auto role = RoleAttr::get(function.getContext(), Role::Parameter);
  for (BlockArgument argument : arguments)
    copy.setArgAttr(argument.getArgNumber(), kRoleAttr, role);
  unsigned before = copy.getNumResults();
  if (failed(differentiate(copy, loss)))
    return {Pairs::Unknown, {}};

  std::mt19937 generator;
  NamedTensors inputs;
  SmallVector<std::string> names = getArgumentNames(copy);
  for (auto [name, argument] : llvm::zip(names, copy.getArguments()))
    inputs[name] = draw(cast<RankedTensorType>(argument.getType()), generator);
  FailureOr<Outputs> outputs = evaluate(*module, copy.getSymName(), inputs);
  if (failed(outputs))
    return {Pairs::Unknown, {}};
  SmallVector<std::string> all = getResultNames(copy);
  auto getTensor = [&](unsigned index) -> const Tensor & {
    return *outputs->values.at(all[index]);
  };
  // Own gradients by argument, and the norm of the largest.
  DenseMap<unsigned, unsigned> own;
  double largest = 0.0;
  for (const Port &port : getResults(copy, Role::Gradient)) {
    std::optional<Port> of = findArgument(copy, Role::Parameter, port.name);
    if (port.index < before || !of)
      continue;
    own[of->index] = port.index;
    largest = std::max(largest, getNorm(getTensor(port.index).getFloats()));
  }
  // Gradients that are equal may have either's place.
  llvm::BitVector taken(arguments.size());
  Pairs pairs{Pairs::Gradients, {}};
  for (unsigned result : results) {
    std::optional<unsigned> &found = pairs.places.emplace_back();
    const Tensor &tensor = getTensor(result);
    if (getNorm(tensor.getFloats()) <= kTolerance * kTolerance * largest)
      continue;
    for (auto [place, argument] : llvm::enumerate(arguments))
      if (!found && !taken.test(place) &&
          copy.getResultTypes()[result] == argument.getType() &&
          areSame(tensor, getTensor(own.lookup(argument.getArgNumber()))))
        found = place;
    if (!found)
      return {Pairs::Others, {}};
    taken.set(*found);
  }
  return pairs;
}
