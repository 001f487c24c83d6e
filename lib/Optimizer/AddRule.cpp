//===- AddRule.cpp - Rules of the library in a module ---------------------===//

#include "binade/Optimizer/RuleLibrary.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::binade;

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
  for (unsigned index = 1; Operation *taken = module.lookupSymbol(fresh);
       ++index) {
    if (auto same = dyn_cast<OptimizerOp>(taken);
        same && same.getHypersAttr() == rule->optimizer.getHypersAttr())
      return same;
    fresh = (name + "_" + Twine(index)).str();
  }
  OptimizerOp added;
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  for (Operation &op : rule->module->getBody()->getOperations()) {
    Operation *copy = b.clone(op);
    StringRef rest = SymbolTable::getSymbolName(copy).getValue();
    rest.consume_front(name);
    SymbolTable::setSymbolName(copy, fresh + rest.str());
    if (auto optimizer = dyn_cast<OptimizerOp>(copy))
      added = optimizer;
  }
  return added;
}
