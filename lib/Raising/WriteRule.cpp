//===- WriteRule.cpp - Updates as optimizer rules -------------------------===//

#include "WriteRule.h"
#include "Dataflow.h"
#include "ProbeRule.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Writes the two formulas of one rule: scalars and update.
class FormulaWriter {
public:
  FormulaWriter(func::FuncOp function, const StepParts &parts,
                const Update &update, ModuleOp into)
      : function(function), update(update), parts(parts),
        known(getNumbers(parts)), b(function.getLoc(), function.getContext()),
        into(into) {}

  /// Returns the rule; null if it reads two learning rates.
  OptimizerOp write(StringRef name);

private:
  func::FuncOp addFunction(StringRef name, TypeRange inputs);
  Value buildNumber(Value value);
  Value buildElement(Value value);
  Value buildOp(Operation *op, function_ref<Value(Value)> build);
  Value buildConstant(ConstantOp constant);
  Value buildCount(Value count, Type type);
  void addCounts();
  void addRate(BlockArgument rate, OptimizerOp rule);
  void finish(func::FuncOp formula, ValueRange results);

  func::FuncOp function;
  const Update &update;
  const StepParts &parts;
  SmallVector<Value> known; ///< The step count and learning rates.
  ImplicitLocOpBuilder b;
  ModuleOp into;
  /// The value that represents a value of the graph in each formula.
  DenseMap<Value, Value> numbers, elements;
  /// Scalars that the update reads, and its arguments for them.
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

/// Converts a step count to a type of the graph.
Value FormulaWriter::buildCount(Value count, Type type) {
  if (isa<FloatType>(type))
    return arith::SIToFPOp::create(b, type, count);
  return type == count.getType()
             ? count
             : arith::TruncIOp::create(b, type, count).getResult();
}

/// Defines step counts: a formula counts from 1, while the graph has the number
/// of past steps.
void FormulaWriter::addCounts() {
  Value count = scalarFormula.getArgument(0);
  auto getPast = [&]() -> Value {
    Value one = arith::ConstantOp::create(b, b.getI64IntegerAttr(1));
    return arith::SubIOp::create(b, count, one);
  };
  if (parts.step) {
    BlockArgument step = parts.step->argument;
    Type type = getElementTypeOrSelf(step.getType());
    numbers[getResultValue(function, parts.step->result)] =
        buildCount(count, type);
    numbers[step] = buildCount(getPast(), type);
  }
  for (BlockArgument number : parts.given)
    if (Type type = getElementTypeOrSelf(number.getType());
        isa<IntegerType>(type))
      numbers[number] = buildCount(parts.first ? count : getPast(), type);
}

void FormulaWriter::addRate(BlockArgument rate, OptimizerOp rule) {
  auto none = FloatAttr::get(b.getF64Type(), NAN);
  rule.setHypersAttr(b.getArrayAttr(
      SettingAttr::get(b.getContext(), b.getStringAttr(kRate), none,
                       b.getF64FloatAttr(0.0), FloatAttr(), FloatAttr())));
  Value given = scalarFormula.front().addArgument(b.getF64Type(), b.getLoc());
  numbers[rate] = arith::TruncFOp::create(b, b.getF32Type(), given);
}

/// Builds a scalar in the formula of scalars.
Value FormulaWriter::buildNumber(Value value) {
  if (Value built = numbers.lookup(value))
    return built;
  Value built;
  if (Value shown = getScalarSource(value))
    built = buildNumber(shown);
  else if (auto constant = value.getDefiningOp<ConstantOp>())
    built = buildConstant(constant);
  else
    built = buildOp(value.getDefiningOp(),
                    [&](Value operand) { return buildNumber(operand); });
  numbers[value] = built;
  return built;
}

/// Builds an element in the formula of the update.
Value FormulaWriter::buildElement(Value value) {
  if (Value built = elements.lookup(value))
    return built;
  Value built, number = value;
  while (Value shown = getScalarSource(number))
    number = shown;
  if (auto constant = number.getDefiningOp<ConstantOp>()) {
    built = buildConstant(constant);
  } else if (isKnown(number, known)) {
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

  b.setInsertionPointToEnd(&scalarFormula.front());
  addCounts();
  DenseSet<Value> read =
      getCone(llvm::to_vector(llvm::make_first_range(scalars)));
  auto rates = llvm::make_filter_range(parts.given, [&](BlockArgument number) {
    return read.contains(number) && !numbers.contains(number);
  });
  if (!rates.empty() && std::next(rates.begin()) != rates.end())
    return {};
  for (BlockArgument rate : rates)
    addRate(rate, rule);
  SmallVector<Value> given;
  for (Value number : llvm::make_first_range(scalars))
    given.push_back(
        arith::ExtFOp::create(b, b.getF64Type(), buildNumber(number)));
  finish(scalarFormula, given);
  return rule;
}

/// Returns a text that is equal for equal rules.
static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().useLocalScope());
  return text;
}

OptimizerOp RuleWriter::write(func::FuncOp function, const StepParts &parts,
                              const Update &update) {
  constexpr StringLiteral kName = "exported";
  auto write = [&](ModuleOp into, StringRef name) {
    return FormulaWriter(function, parts, update, into).write(name);
  };
  OwningOpRef<ModuleOp> alone = ModuleOp::create(module.getLoc());
  OptimizerOp sample = write(*alone, kName);
  if (!sample)
    return {};
  if (!keepsParameter(sample))
    return {};
  OptimizerOp &rule = written[print(*alone)];
  if (!rule) {
    if (!sample.getHypers().empty() && !hasLearningRate(sample))
      return {};
    std::string name = kName.str();
    if (written.size() > 1)
      name += std::to_string(written.size());
    rule = write(module, name);
  }
  return rule;
}

void RuleWriter::erase() {
  for (auto &[text, rule] : written)
    if (rule) {
      for (StringRef suffix : {".scalars", ".update"})
        getFormula(rule, suffix).erase();
      rule.erase();
    }
}
