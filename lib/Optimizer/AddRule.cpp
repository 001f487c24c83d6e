//===- AddRule.cpp - Copy shipped rules into a module ---------------------===//

#include "binade/Optimizer/RuleLibrary.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Renames the symbols of the module of `rule` that start with `from`: they
/// start with `to` then.
static void rename(Rule &rule, StringRef from, StringRef to) {
  for (Operation &op : rule.module->getBody()->getOperations()) {
    StringRef rest = SymbolTable::getSymbolName(&op).getValue();
    rest.consume_front(from);
    SymbolTable::setSymbolName(&op, (to + rest).str());
  }
}

/// Returns the rule of this name in `module` if it has the same
/// hyper-parameters and functions; else null.
static OptimizerOp findSame(ModuleOp module, Rule &rule) {
  for (Operation &op : rule.module->getBody()->getOperations()) {
    Operation *other = module.lookupSymbol(SymbolTable::getSymbolName(&op));
    if (!other || !OperationEquivalence::isEquivalentTo(
                      &op, other, OperationEquivalence::IgnoreLocations))
      return {};
  }
  return module.lookupSymbol<OptimizerOp>(rule.optimizer.getSymNameAttr());
}

FailureOr<OptimizerOp> mlir::binade::addRule(ModuleOp module, StringRef name,
                                             const Settings &settings) {
  MLIRContext *context = module.getContext();
  FailureOr<Rule> rule = loadRule(name, context);
  if (failed(rule))
    return failure();
  SmallVector<Attribute> hypers;
  for (auto hyper : rule->optimizer.getHypers().getAsRange<SettingAttr>()) {
    auto found = settings.find(hyper.getName());
    double value = found == settings.end() ? hyper.getDefault() : found->second;
    if (!hyper.explainViolation(value).empty())
      return OptimizerOp();
    auto type = hyper.getValue().getType();
    hypers.push_back(
        SettingAttr::get(context, hyper.getName(), FloatAttr::get(type, value),
                         hyper.getMin(), hyper.getMax(), hyper.getBelow()));
  }
  rule->optimizer.setHypersAttr(ArrayAttr::get(context, hypers));
  std::string fresh = name.str();
  for (unsigned index = 1; module.lookupSymbol(fresh); ++index) {
    if (OptimizerOp same = findSame(module, *rule))
      return same;
    std::string next = (name + "_" + Twine(index)).str();
    rename(*rule, fresh, next);
    fresh = next;
  }
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  OptimizerOp added;
  for (Operation &op : rule->module->getBody()->getOperations())
    if (auto optimizer = dyn_cast<OptimizerOp>(b.clone(op)))
      added = optimizer;
  return added;
}
