//===- Optimizer.cpp - rules and updates ----------------------------------===//

#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Optimizer.cpp.inc"

Schedule GradientStatisticsOp::getSchedule() { return Schedule::MultiTensor; }
unsigned GradientStatisticsOp::getSegments() { return getGradients().size(); }

LogicalResult OptimizerOp::verify() {
  for (ArrayAttr settings : {getStates(), getHypers()}) {
    llvm::SmallDenseSet<StringAttr> names;
    for (auto setting : settings.getAsRange<SettingAttr>()) {
      if (!names.insert(setting.getName()).second)
        return emitOpError("names ") << setting.getName() << " twice";
      std::string problem = setting.explainViolation(setting.getDefault());
      if (!problem.empty())
        return emitOpError("has an illegal default: ") << problem;
    }
  }
  return success();
}

/// The rule and its formula, or what is missing.
static FailureOr<std::pair<OptimizerOp, func::FuncOp>>
lookUpRule(Operation *op, FlatSymbolRefAttr optimizer, StringAttr formula,
           SymbolTableCollection &symbols) {
  auto rule = symbols.lookupNearestSymbolFrom<OptimizerOp>(op, optimizer);
  if (!rule)
    return op->emitOpError("names optimizer ")
           << optimizer << ", which this module does not hold";
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, formula);
  if (!function)
    return op->emitOpError("needs function '@")
           << formula.getValue() << "', which this module does not hold";
  return std::pair(rule, function);
}

LogicalResult
OptimizerScalarsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto found = lookUpRule(*this, getOptimizerAttr(), getFormula(), symbols);
  if (failed(found))
    return failure();
  auto [rule, function] = *found;
  if (getHypers().size() != rule.getHypers().size())
    return emitOpError("has ")
           << getHypers().size() << " hyper-parameters, optimizer "
           << getOptimizerAttr() << " has " << rule.getHypers().size();
  if (getScalars().size() != function.getNumResults())
    return emitOpError("has ")
           << getScalars().size() << " results, '@" << getFormula().getValue()
           << "' has " << function.getNumResults();
  return success();
}

LogicalResult
OptimizerUpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto found = lookUpRule(*this, getOptimizerAttr(), getFormula(), symbols);
  if (failed(found))
    return failure();
  auto [rule, function] = *found;
  if (getStates().size() != rule.getStates().size()) // C2
    return emitOpError("has ")
           << getStates().size() << " states, optimizer " << getOptimizerAttr()
           << " has " << rule.getStates().size();
  size_t expected = 2 + getStates().size() + getScalars().size();
  if (function.getNumArguments() != expected)
    return emitOpError("gives ")
           << expected << " values to '@" << getFormula().getValue()
           << "', which takes " << function.getNumArguments();
  return success();
}

LogicalResult OptimizerUpdateOp::verify() {
  auto parameter = cast<RankedTensorType>(getParameter().getType());
  auto sameShape = [&](Value x) { // C1
    return cast<RankedTensorType>(x.getType()).getShape() ==
           parameter.getShape();
  };
  if (!sameShape(getGradient()) || !llvm::all_of(getStates(), sameShape))
    return emitOpError("expects gradient and states of the parameter's shape ")
           << parameter;
  if (getNewParameter().getType() != parameter ||
      getNewStates().getTypes() != getStates().getTypes())
    return emitOpError("expects results of the types of parameter and states");
  return success();
}
