//===- SolveSettings.cpp - Find settings by constants ---------------------===//

#include "SolveSettings.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <bit>

using namespace mlir;
using namespace mlir::binade;
using Values = llvm::DenseMap<Value, double>;

/// Returns the value of `expression`; none if an argument has no value.
static std::optional<double> evaluate(Value expression, const Values &known) {
  if (isa<BlockArgument>(expression)) {
    auto found = known.find(expression);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }
  Operation *op = expression.getDefiningOp();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return cast<FloatAttr>(constant.getValue()).getValueAsDouble();
  std::optional<double> lhs = evaluate(op->getOperand(0), known);
  std::optional<double> rhs = evaluate(op->getOperand(1), known);
  if (!lhs || !rhs)
    return std::nullopt;
  if (isa<arith::AddFOp>(op))
    return *lhs + *rhs;
  if (isa<arith::SubFOp>(op))
    return *lhs - *rhs;
  if (isa<arith::MulFOp>(op))
    return *lhs * *rhs;
  if (isa<arith::DivFOp>(op))
    return *lhs / *rhs;
  llvm_unreachable("patterns compute numbers by the four basic operations");
}

/// Returns the only argument without a value, and the approximate value with
/// which `expression` is `number`; none if there are several such arguments, or
/// none.
static std::optional<std::pair<Value, double>>
invert(Value expression, double number, const Values &known) {
  if (isa<BlockArgument>(expression))
    return std::pair(expression, number);
  Operation *op = expression.getDefiningOp();
  if (op->getNumOperands() != 2)
    return std::nullopt;
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  std::optional<double> left = evaluate(lhs, known),
                        right = evaluate(rhs, known);
  if (left.has_value() == right.has_value())
    return std::nullopt;
  if (isa<arith::AddFOp>(op))
    return left ? invert(rhs, number - *left, known)
                : invert(lhs, number - *right, known);
  if (isa<arith::SubFOp>(op))
    return left ? invert(rhs, *left - number, known)
                : invert(lhs, number + *right, known);
  if (isa<arith::MulFOp>(op))
    return left ? invert(rhs, number / *left, known)
                : invert(lhs, number / *right, known);
  return left ? invert(rhs, *left / number, known)
              : invert(lhs, number * *right, known);
}

static bool holds(const Equation &equation, const Values &known) {
  std::optional<double> value = evaluate(equation.expression, known);
  return value && std::bit_cast<uint32_t>(static_cast<float>(*value)) ==
                      std::bit_cast<uint32_t>(equation.number);
}

/// Finds the value near `about` with the fewest digits for which `equation`
/// holds.
static bool settle(const Equation &equation, Value argument, double about,
                   Values &known) {
  for (int digits = 1; digits <= 17; ++digits) {
    char text[40];
    std::snprintf(text, sizeof(text), "%.*e", digits - 1, about);
    known[argument] = std::strtod(text, nullptr);
    if (holds(equation, known))
      return true;
  }
  return false;
}

std::optional<Values>
mlir::binade::solveSettings(ArrayRef<Equation> equations) {
  Values known;
  SmallVector<Equation> open(equations);
  // 1 - beta determines more digits of beta than beta itself does.
  llvm::stable_sort(open, [](const Equation &a, const Equation &b) {
    return !isa<BlockArgument>(a.expression) &&
           isa<BlockArgument>(b.expression);
  });
  while (!open.empty()) {
    auto *next = llvm::find_if(open, [&](const Equation &equation) {
      return evaluate(equation.expression, known) ||
             invert(equation.expression, equation.number, known);
    });
    if (next == open.end())
      return std::nullopt;
    if (auto found = invert(next->expression, next->number, known);
        found && !known.contains(found->first) &&
        !settle(*next, found->first, found->second, known))
      return std::nullopt;
    open.erase(next);
  }
  if (!llvm::all_of(equations, [&](const Equation &equation) {
        return holds(equation, known);
      }))
    return std::nullopt;
  return known;
}
