//===- ImportReport.cpp - What import made of a graph ---------------------===//

#include "ImportReport.h"
#include "binade/Autodiff/Differentiate.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Rules.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::binade;

/// Prints the number of tensors of each role, and the parameters by name.
static void printArguments(raw_ostream &os, func::FuncOp function) {
  for (Role role : {Role::Parameter, Role::Buffer, Role::Rng, Role::Batch}) {
    SmallVector<Port> ports = getArguments(function, role);
    if (ports.empty())
      continue;
    int64_t elements = 0;
    for (const Port &port : ports)
      elements += getNumElements(function.getArgument(port.index));
    os << stringifyRole(role) << ": " << ports.size() << " inputs, " << elements
       << " elements: ";
    if (role == Role::Parameter) {
      for (const Port &port : ports) {
        auto type =
            cast<RankedTensorType>(function.getArgument(port.index).getType());
        os << "\n  " << ::binade::printable(port.name.str()) << " [";
        llvm::interleaveComma(type.getShape(), os);
        os << "]";
      }
      os << "\n";
      continue;
    }
    constexpr size_t kShown = 4;
    llvm::interleaveComma(
        ArrayRef(ports).take_front(kShown), os,
        [&](const Port &port) { os << ::binade::quote(port.name.str()); });
    os << (ports.size() > kShown ? ", ...\n" : "\n");
  }
}

/// The ops of a part, the most frequent kinds first.
static void printOps(raw_ostream &os, func::FuncOp function, Phase phase) {
  llvm::MapVector<StringRef, unsigned> counts;
  unsigned total = 0;
  for (Operation &op : function.front().without_terminator())
    if (!op.hasTrait<OpTrait::ConstantLike>() && getPhase(&op) == phase) {
      ++counts[op.getName().stripDialect()];
      ++total;
    }
  if (total == 0)
    return;
  auto sorted = counts.takeVector();
  llvm::stable_sort(
      sorted, [](const auto &a, const auto &b) { return a.second > b.second; });
  os << stringifyPhase(phase) << ": " << total << " ops: ";
  llvm::interleaveComma(sorted, os, [&](const auto &kind) {
    os << kind.first << " " << kind.second;
  });
  os << "\n";
}

/// Prints each update rule of the graph and how many parameters use it.
static void printUpdates(raw_ostream &os, ModuleOp module,
                         func::FuncOp function) {
  llvm::MapVector<OptimizerOp, unsigned> rules;
  unsigned without = 0;
  for (const Port &port : getArguments(function, Role::Parameter)) {
    auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(port.index,
                                                             kOptimizerAttr);
    if (auto rule =
            name ? module.lookupSymbol<OptimizerOp>(name) : OptimizerOp())
      ++rules[rule];
    else
      ++without;
  }
  for (auto [rule, count] : rules) {
    os << "update: " << count << " parameters by '" << rule.getSymName()
       << "', " << rule.getStates().size() << " states";
    bool isOwn = rule.getHypers().empty();
    for (auto hyper : rule.getHypers().getAsRange<SettingAttr>()) {
      isOwn |= !hasDefault(hyper);
      os << ", " << hyper.getName().getValue() << " = "
         << (hasDefault(hyper) ? formatNumber(hyper.getDefault())
                               : "to be given");
    }
    if (isOwn)
      os << ", as the graph has it: no rule of the library is written so";
    os << "\n";
  }
  if (auto rates = function->getAttrOfType<ArrayAttr>(kRatesAttr)) {
    os << "learning rate: " << rates.size() << " inputs: ";
    llvm::interleaveComma(
        rates.getAsValueRange<StringAttr>(), os,
        [&](StringRef name) { os << ::binade::quote(name.str()); });
    os << ": --lr gives it, --group that of some parameters\n";
  }
  if (without)
    os << "update: none came with " << without << " parameters\n";
}

/// Prints the parameters without gradient, found by differentiating a copy.
static void printUntrained(raw_ostream &os, ModuleOp module) {
  OwningOpRef<ModuleOp> copy = module.clone();
  auto forward = copy->lookupSymbol<func::FuncOp>(kForwardName);
  std::optional<Port> loss;
  if (forward)
    loss = findResult(forward, Role::Metric, "loss");
  // The next phase reports ops that have no derivative.
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](Diagnostic &) { return success(); });
  if (!loss || failed(differentiate(forward, loss->index)))
    return;
  llvm::StringSet<> trained;
  for (const Port &port : getResults(forward, Role::Gradient))
    trained.insert(port.name);
  SmallVector<std::string> names;
  for (const Port &port : getArguments(forward, Role::Parameter))
    if (!trained.contains(port.name))
      names.push_back(::binade::quote(port.name.str()));
  if (!names.empty())
    os << "not trained: the loss does not depend on " << llvm::join(names, ", ")
       << "\n";
}

void printImported(raw_ostream &os, ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>(kForwardName);
  auto gradient = module.lookupSymbol<func::FuncOp>(kGradientName);
  func::FuncOp function = gradient ? gradient : forward;
  auto backward = function->getAttrOfType<StringAttr>(kBackwardAttr);
  os << "graph: " << (backward ? "a loss with its gradients" : "a forward part")
     << "\n";
  if (backward)
    os << "backward part: " << backward.getValue() << "\n";
  printArguments(os, function);
  printUntrained(os, module);
  printOps(os, function, Phase::Forward);
  printOps(os, function, Phase::Backward);
  if (!backward)
    return;
  printUpdates(os, module, function);
  // A backward pass that autodiff derives begins with the seed.
  bool isSeeded = forward || !function.getOps<GradientSeedOp>().empty();
  os << "loss scale: "
     << (isSeeded ? "enters the backward part"
                  : "has no place, the backward part is not linear in a seed")
     << "\n";
}
