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

void OptimizerUpdateOp::build(OpBuilder &b, OperationState &state,
                              TypeRange types, StringRef optimizer,
                              Value parameter, Value gradient,
                              ValueRange states, ValueRange scalars,
                              ValueRange factors, Value skip) {
  build(b, state, types, optimizer, parameter, gradient, states, scalars,
        factors, skip, ValueRange(), Master::None, StorageAttr());
}

/// Whether `master` keeps a tensor beside the parameter.
static bool keepsTensor(Master master) {
  return master != Master::None && master != Master::Stochastic;
}

Value OptimizerUpdateOp::getBeside() {
  return keepsTensor(getMaster()) ? getStates().back() : Value();
}

OperandRange OptimizerUpdateOp::getRuleStates() {
  return getStates().drop_back(keepsTensor(getMaster()));
}

LogicalResult
OptimizerUpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto found = lookUpRule(*this, getOptimizerAttr(), getFormula(), symbols);
  if (failed(found))
    return failure();
  auto [rule, function] = *found;
  if (getRuleStates().size() != rule.getStates().size()) // C2
    return emitOpError("has ")
           << getRuleStates().size() << " states, optimizer "
           << getOptimizerAttr() << " has " << rule.getStates().size();
  size_t expected = 2 + getRuleStates().size() + getScalars().size();
  if (function.getNumArguments() != expected)
    return emitOpError("gives ")
           << expected << " values to '@" << getFormula().getValue()
           << "', which takes " << function.getNumArguments();
  return success();
}

static LogicalResult verifyMaster(OptimizerUpdateOp op) {
  Master master = op.getMaster();
  auto parameter = cast<FloatType>(getElementTypeOrSelf(op.getParameter()));
  if (master != Master::None) // C3
    if (std::string wrong = StorageAttr::explainViolation(
            parameter, master, FloatType(), FloatType());
        !wrong.empty())
      return op.emitOpError(wrong);
  Builder b(op.getContext());
  Type kept = parameter;
  if (master == Master::F32)
    kept = b.getF32Type();
  else if (master != Master::Kahan)
    kept = b.getIntegerType(16);
  if (Value beside = op.getBeside();
      beside && getElementTypeOrSelf(beside) != kept) // C3
    return op.emitOpError("expects ")
           << kept << " in the last state, which '" << stringifyMaster(master)
           << "' keeps, got " << getElementTypeOrSelf(beside);
  for (Value state : op.getRuleStates())
    if (!isa<FloatType>(getElementTypeOrSelf(state)))
      return op.emitOpError("expects states of floats, got ")
             << state.getType();
  size_t numbers = master == Master::Stochastic ? 2 : 0;
  if (op.getRandom().size() != numbers) // C4
    return op.emitOpError("has ")
           << op.getRandom().size() << " random numbers, '"
           << stringifyMaster(master) << "' takes " << numbers;
  return success();
}

LogicalResult OptimizerUpdateOp::verify() {
  if (getStates().empty() && keepsTensor(getMaster())) // C2
    return emitOpError("has no state for what '")
           << stringifyMaster(getMaster()) << "' keeps";
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
  return verifyMaster(*this);
}
