//===- PairByValue.cpp - Whose gradient is whose, by numbers --------------===//

#include "PairByValue.h"
#include "binade/IR/Differentiate.h"
#include "binade/Reference/Interpreter.h"
#include "mlir/IR/IRMapping.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace mlir::binade;

/// Products that the reference computes in about a second.
static constexpr int64_t kMostProducts = 100'000'000;

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

static bool areSame(const Tensor &found, const Tensor &own) {
  double difference = 0.0, norm = 0.0;
  for (auto [x, y] : llvm::zip_equal(found.getFloats(), own.getFloats())) {
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return norm > 0.0 && std::sqrt(difference) <= kTolerance * std::sqrt(norm);
}

SmallVector<std::optional<unsigned>>
mlir::binade::pairByValue(func::FuncOp function, unsigned loss,
                          ArrayRef<unsigned> gradients,
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
    return {};

  std::mt19937 generator;
  NamedTensors inputs;
  SmallVector<std::string> names = getArgumentNames(copy);
  for (auto [name, argument] : llvm::zip(names, copy.getArguments()))
    inputs[name] = draw(cast<RankedTensorType>(argument.getType()), generator);
  FailureOr<Outputs> outputs = evaluate(*module, copy.getSymName(), inputs);
  if (failed(outputs))
    return {};
  SmallVector<std::string> results = getResultNames(copy);
  SmallVector<Port> own = getResults(copy, Role::Gradient);
  auto getTensor = [&](unsigned index) -> const Tensor & {
    return *outputs->values.at(results[index]);
  };
  SmallVector<std::optional<unsigned>> pairs(gradients.size());
  for (auto [index, gradient] : llvm::enumerate(gradients))
    for (auto [place, argument] : llvm::enumerate(arguments)) {
      std::optional<Port> port = getArgument(copy, argument.getArgNumber());
      auto *mine = llvm::find_if(
          own, [&](const Port &p) { return p.name == port->name; });
      if (mine == own.end() || mine->index < before ||
          copy.getResultTypes()[gradient] != argument.getType() ||
          !areSame(getTensor(gradient), getTensor(mine->index)))
        continue;
      if (pairs[index])
        return {};
      pairs[index] = place;
    }
  return pairs;
}
