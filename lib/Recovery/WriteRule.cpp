//===- WriteRule.cpp - An update as a rule --------------------------------===//

#include "WriteRule.h"
#include "Dataflow.h"
#include "EvaluateFormula.h"
#include "binade/IR/Movement.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

namespace {
/// The two formulas of a rule, as they are written.
class FormulaWriter {
public:
  FormulaWriter(func::FuncOp function, const StepParts &parts,
                const Update &update, ModuleOp into)
      : function(function), update(update),
        step(parts.step ? Value(parts.step->argument) : Value()),
        next(parts.step ? getResultValue(function, parts.step->result)
                        : Value()),
        b(function.getLoc(), function.getContext()), into(into) {}

  OptimizerOp write(StringRef name);

private:
  func::FuncOp addFunction(StringRef name, TypeRange inputs);
  Value buildNumber(Value value);
  Value buildElement(Value value);
  Value buildOp(Operation *op, function_ref<Value(Value)> build);
  Value buildConstant(ConstantOp constant);
  Value buildCount(Value count);
  void finish(func::FuncOp formula, ValueRange results);

  func::FuncOp function;
  const Update &update;
  /// Numbers of steps before this one, and with it; or null.
  Value step, next;
  ImplicitLocOpBuilder b;
  ModuleOp into;
  /// What stands for a value of the graph, by formula.
  DenseMap<Value, Value> numbers, elements;
  /// Numbers that the update reads, and its arguments for them.
  llvm::MapVector<Value, Value> scalars;
  func::FuncOp scalarFormula, updateFormula;
};
} // namespace

func::FuncOp FormulaWriter::addFunction(StringRef name, TypeRange inputs) {
  b.setInsertionPointToEnd(into.getBody());
  auto formula = func::FuncOp::create(b, name, b.getFunctionType(inputs, {}));
  formula.setPrivate();
  formula.addEntryBlock();
  return formula;
}

void FormulaWriter::finish(func::FuncOp formula, ValueRange results) {
  b.setInsertionPointToEnd(&formula.front());
  func::ReturnOp::create(b, results);
  formula.setType(b.getFunctionType(formula.front().getArgumentTypes(),
                                    results.getTypes()));
}

Value FormulaWriter::buildConstant(ConstantOp constant) {
  auto elements = cast<SplatElementsAttr>(constant.getValue());
  return arith::ConstantOp::create(
      b, cast<TypedAttr>(elements.getSplatValue<Attribute>()));
}

Value FormulaWriter::buildOp(Operation *op, function_ref<Value(Value)> build) {
  SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), build);
  return cast<ElementwiseOpInterface>(op).buildScalar(b, operands);
}

/// A number of steps in the graph's format.
Value FormulaWriter::buildCount(Value count) {
  Type type = getElementTypeOrSelf(step.getType());
  if (isa<FloatType>(type))
    return arith::SIToFPOp::create(b, type, count);
  return type == count.getType()
             ? count
             : arith::TruncIOp::create(b, type, count).getResult();
}

/// A number, in the formula of scalars.
Value FormulaWriter::buildNumber(Value value) {
  if (Value built = numbers.lookup(value))
    return built;
  Value built;
  if (Value shown = getShownNumber(value))
    built = buildNumber(shown);
  else if (auto constant = value.getDefiningOp<ConstantOp>())
    built = buildConstant(constant);
  else
    built = buildOp(value.getDefiningOp(),
                    [&](Value operand) { return buildNumber(operand); });
  numbers[value] = built;
  return built;
}

/// An element, in the formula of the update.
Value FormulaWriter::buildElement(Value value) {
  if (Value built = elements.lookup(value))
    return built;
  Value built, number = value;
  while (Value shown = getShownNumber(number))
    number = shown;
  if (auto constant = number.getDefiningOp<ConstantOp>()) {
    built = buildConstant(constant);
  } else if (isKnown(number, step)) {
    Value &argument = scalars[number];
    if (!argument)
      argument = updateFormula.front().addArgument(b.getF32Type(), b.getLoc());
    built = argument;
  } else {
    built = buildOp(value.getDefiningOp(),
                    [&](Value operand) { return buildElement(operand); });
  }
  elements[value] = built;
  return built;
}

OptimizerOp FormulaWriter::write(StringRef name) {
  b.setInsertionPointToEnd(into.getBody());
  SmallVector<Attribute> states;
  for (size_t index = 0; index < update.states.size(); ++index)
    states.push_back(SettingAttr::get(
        b.getContext(), b.getStringAttr("state" + std::to_string(index)),
        b.getF64FloatAttr(0.0), FloatAttr(), FloatAttr(), FloatAttr()));
  auto rule =
      OptimizerOp::create(b, name, b.getArrayAttr(states), b.getArrayAttr({}),
                          ArrayAttr(), StringAttr(), DictionaryAttr());

  SmallVector<Type> inputs(2 + update.states.size(), b.getF32Type());
  scalarFormula = addFunction((name + ".scalars").str(), b.getI64Type());
  updateFormula = addFunction((name + ".update").str(), inputs);
  auto arguments = updateFormula.getArguments();
  elements[update.parameter.argument] = arguments[0];
  elements[update.gradient] = arguments[1];
  for (auto [index, state] : llvm::enumerate(update.states))
    elements[state.argument] = arguments[2 + index];

  b.setInsertionPointToEnd(&updateFormula.front());
  SmallVector<Value> results = {
      buildElement(getResultValue(function, update.parameter.result))};
  for (const Replacement &state : update.states)
    results.push_back(buildElement(getResultValue(function, state.result)));
  finish(updateFormula, results);

  // A formula counts from 1, the graph has the number of past steps.
  b.setInsertionPointToEnd(&scalarFormula.front());
  if (step) {
    Value count = scalarFormula.getArgument(0);
    Value one = arith::ConstantOp::create(b, b.getI64IntegerAttr(1));
    numbers[next] = buildCount(count);
    numbers[step] = buildCount(arith::SubIOp::create(b, count, one));
  }
  SmallVector<Value> given;
  for (Value number : llvm::make_first_range(scalars))
    given.push_back(
        arith::ExtFOp::create(b, b.getF64Type(), buildNumber(number)));
  finish(scalarFormula, given);
  return rule;
}

/// Text that is the same for rules that are alike.
static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().useLocalScope());
  return text;
}

/// The new parameter where the old one is `parameter`, the gradient 1 and
/// states 0, in the first step; NaN where it is not to be known.
static double updateOnce(OptimizerOp rule, double parameter) {
  auto module = rule->getParentOfType<ModuleOp>();
  auto find = [&](StringRef suffix) {
    return module.lookupSymbol<func::FuncOp>(
        (rule.getSymName() + suffix).str());
  };
  Builder b(rule.getContext());
  auto narrow = [&](double value) -> Attribute {
    return b.getF32FloatAttr(static_cast<float>(value));
  };
  SmallVector<Attribute> arguments = {narrow(parameter), narrow(1.0)};
  arguments.append(rule.getStates().size(), narrow(0.0));
  for (Attribute number :
       evaluateFormula(find(".scalars"), {b.getI64IntegerAttr(1)}))
    arguments.push_back(narrow(cast<FloatAttr>(number).getValueAsDouble()));
  func::FuncOp update = find(".update");
  if (arguments.size() != update.getNumArguments())
    return NAN;
  SmallVector<Attribute> results = evaluateFormula(update, arguments);
  return results.empty() ? NAN
                         : cast<FloatAttr>(results.front()).getValueAsDouble();
}

OptimizerOp RuleWriter::write(func::FuncOp function, const StepParts &parts,
                              const Update &update) {
  constexpr StringLiteral kName = "exported";
  auto write = [&](ModuleOp into, StringRef name) {
    return FormulaWriter(function, parts, update, into).write(name);
  };
  OwningOpRef<ModuleOp> alone = ModuleOp::create(module.getLoc());
  OptimizerOp sample = write(*alone, kName);
  double kept = updateOnce(sample, 2.0) - updateOnce(sample, 1.0);
  if (!(kept > 0.5 && kept < 1.5))
    return {};
  OptimizerOp &rule = written[print(*alone)];
  if (!rule) {
    std::string name = kName.str();
    if (written.size() > 1)
      name += std::to_string(written.size());
    rule = write(module, name);
  }
  return rule;
}

void RuleWriter::erase() {
  for (auto &[text, rule] : written) {
    for (StringRef suffix : {".scalars", ".update"})
      module.lookupSymbol((rule.getSymName() + suffix).str())->erase();
    rule.erase();
  }
}
