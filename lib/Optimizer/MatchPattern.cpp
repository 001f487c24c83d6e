//===- MatchPattern.cpp - Match a rule with a pattern ---------------------===//

#include "MatchPattern.h"
#include "SolveSettings.h"
#include "binade/IR/Rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr StringLiteral kHypers = "hypers", kSettings = "settings";

namespace {
class PatternMatcher {
public:
  PatternMatcher(OptimizerOp rule, func::FuncOp pattern)
      : pattern(pattern), states(rule.getStates().size()) {
    auto module = rule->getParentOfType<ModuleOp>();
    auto find = [&](StringRef suffix) {
      return module.lookupSymbol<func::FuncOp>(
          (rule.getSymName() + suffix).str());
    };
    scalars = find(".scalars");
    update = find(".update");
    hypers = pattern->getAttrOfType<ArrayAttr>(kHypers);
  }

  std::optional<Settings> match();

private:
  static Operation *getReturn(func::FuncOp function) {
    return function.front().getTerminator();
  }
  bool match(Value expected, Value found);
  bool matchOperands(Operation *expected, Operation *found, bool swapped);
  bool isGiven(Operation *found);
  StringRef getHyper(BlockArgument argument);
  Value resolve(Value value);

  func::FuncOp pattern, scalars, update;
  size_t states;
  /// The index of the rule's state for each state of the pattern.
  SmallVector<unsigned> order;
  SmallVector<Equation> equations;
  ArrayAttr hypers;
  Value rate; ///< The pattern's, if it is an input of the rule.
};
} // namespace

/// Returns the formula of scalars for an argument of `update` that is a scalar,
/// without its change of format.
Value PatternMatcher::resolve(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && argument.getOwner() == &update.front() &&
      argument.getArgNumber() >= 2 + states)
    value =
        getReturn(scalars)->getOperand(argument.getArgNumber() - 2 - states);
  if (auto wider = value.getDefiningOp<arith::ExtFOp>())
    value = wider.getIn();
  return value;
}

bool PatternMatcher::matchOperands(Operation *expected, Operation *found,
                                   bool swapped) {
  size_t before = equations.size(), count = expected->getNumOperands();
  for (size_t index = 0; index < count; ++index)
    if (!match(expected->getOperand(index),
               found->getOperand(swapped ? count - 1 - index : index))) {
      equations.truncate(before);
      return false;
    }
  return true;
}

/// Whether `found` is a learning rate that is an input of the module's rule.
bool PatternMatcher::isGiven(Operation *found) {
  auto narrow = dyn_cast<arith::TruncFOp>(found);
  auto argument = narrow ? dyn_cast<BlockArgument>(narrow.getIn()) : Value();
  return argument && argument.getParentBlock() == &scalars.front();
}

/// Returns the name of the hyper-parameter of an argument; empty for others.
StringRef PatternMatcher::getHyper(BlockArgument argument) {
  unsigned first = pattern.getNumArguments() - hypers.size();
  return argument.getArgNumber() < first
             ? ""
             : cast<StringAttr>(hypers[argument.getArgNumber() - first])
                   .getValue();
}

bool PatternMatcher::match(Value expected, Value found) {
  found = resolve(found);
  if (auto argument = dyn_cast<BlockArgument>(expected)) {
    unsigned index = argument.getArgNumber();
    if (index < 2)
      return found == update.getArgument(index);
    if (index < 2 + states)
      return found == update.getArgument(2 + order[index - 2]);
    // The number of the step is an argument of the formula of scalars.
    Value count = scalars.getArgument(0);
    if (expected.getType() == count.getType())
      return found == count;
    auto number = found.getDefiningOp<arith::SIToFPOp>();
    return number && number.getIn() == count;
  }
  Operation *op = expected.getDefiningOp(), *other = found.getDefiningOp();
  if (!other)
    return false;
  auto constant = dyn_cast<arith::ConstantOp>(other);
  if (auto rounded = dyn_cast<arith::TruncFOp>(op)) {
    auto hyper = dyn_cast<BlockArgument>(rounded.getIn());
    if (hyper && isGiven(other) && getHyper(hyper) == kRate) {
      rate = hyper;
      return true;
    }
    if (!constant)
      return false;
    float number =
        cast<FloatAttr>(constant.getValue()).getValue().convertToFloat();
    equations.push_back({rounded.getIn(), number});
    return true;
  }
  if (auto same = dyn_cast<arith::ConstantOp>(op))
    return constant && constant.getValue() == same.getValue();
  if (op->getName() != other->getName() ||
      op->getAttrDictionary() != other->getAttrDictionary())
    return false;
  return matchOperands(op, other, false) ||
         (op->hasTrait<OpTrait::IsCommutative>() &&
          matchOperands(op, other, true));
}

std::optional<Settings> PatternMatcher::match() {
  if (pattern.getNumResults() != 1 + states)
    return std::nullopt;
  order = llvm::to_vector(llvm::seq<unsigned>(states));
  do {
    equations.clear();
    rate = {};
    auto matches = [&](size_t result, size_t found) {
      return match(getReturn(pattern)->getOperand(result),
                   getReturn(update)->getOperand(found));
    };
    bool isMatch = matches(0, 0);
    for (size_t state = 0; isMatch && state < states; ++state)
      isMatch = matches(1 + state, 1 + order[state]);
    if (!isMatch)
      continue;
    auto solved = solveSettings(equations);
    // An input must not also be determined by constants.
    if (!solved || (rate && solved->contains(rate)))
      continue;
    Settings result;
    for (auto [name, argument] :
         llvm::zip(hypers.getAsRange<StringAttr>(),
                   pattern.getArguments().take_back(hypers.size())))
      if (argument != rate)
        result[name] = solved->lookup(argument);
    if (auto fixed = pattern->getAttrOfType<DictionaryAttr>(kSettings))
      for (NamedAttribute setting : fixed)
        result[setting.getName()] =
            cast<FloatAttr>(setting.getValue()).getValueAsDouble();
    return result;
  } while (std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

std::optional<Settings> mlir::binade::matchPattern(OptimizerOp rule,
                                                   func::FuncOp pattern) {
  return PatternMatcher(rule, pattern).match();
}
