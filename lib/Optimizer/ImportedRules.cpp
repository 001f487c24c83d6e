//===- ImportedRules.cpp - Rules imported with the graph ------------------===//

#include "ImportedRules.h"
#include "binade/IR/Exported.h"
#include "binade/IR/PortAttributes.h"

using namespace mlir;
using namespace mlir::binade;

void mlir::binade::eraseRule(OptimizerOp rule) {
  std::string prefix = (rule.getSymName() + ".").str();
  auto module = rule->getParentOfType<ModuleOp>();
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function.getSymName().starts_with(prefix))
      function.erase();
  rule.erase();
}

SmallVector<OptimizerOp>
mlir::binade::takeImportedRules(func::FuncOp function,
                                MutableArrayRef<TrainedParameter> parameters,
                                bool areUsed) {
  auto module = function->getParentOfType<ModuleOp>();
  llvm::SetVector<OptimizerOp> rules;
  llvm::StringMap<OptimizerOp> given;
  PortAttributes attributes(function);
  for (const Port &port : getArguments(function, Role::Parameter)) {
    auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(port.index,
                                                             kOptimizerAttr);
    attributes.setOfArgument(port.index, kOptimizerAttr, {});
    if (auto rule =
            name ? module.lookupSymbol<OptimizerOp>(name) : OptimizerOp()) {
      given[port.name] = rule;
      rules.insert(rule);
    }
  }
  attributes.apply();
  areUsed &= llvm::all_of(parameters, [&](const TrainedParameter &parameter) {
    return given.contains(parameter.name);
  });
  if (!areUsed) {
    llvm::for_each(rules, eraseRule);
    return {};
  }
  for (TrainedParameter &parameter : parameters)
    parameter.rule = given.lookup(parameter.name);
  return rules.takeVector();
}
