//===- Subgradients.cpp - Adjoints at kinks -------------------------------===//

#include "Subgradients.h"
#include "binade/IR/Subgradient.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static constexpr StringLiteral kTies[] = {"share", "first", "flat"};

std::optional<Ties> mlir::binade::parseTies(StringRef word) {
  const StringLiteral *found = llvm::find(kTies, word);
  if (found == std::end(kTies))
    return std::nullopt;
  return static_cast<Ties>(found - kTies);
}

std::optional<Ties> mlir::binade::getTies(Operation *op) {
  auto word = op->getAttrOfType<StringAttr>(kTiesAttr);
  return word ? parseTies(word.getValue()) : std::nullopt;
}

void mlir::binade::setTies(Value value, Ties ties) {
  value.getDefiningOp()->setAttr(
      kTiesAttr,
      StringAttr::get(value.getContext(), kTies[static_cast<unsigned>(ties)]));
}

Value mlir::binade::zeroWhere(ImplicitLocOpBuilder &b, Value x, double value,
                              Value gradient) {
  Value at = CompareOp::create(b, x, buildSplat(b, x.getType(), value),
                               Comparison::Equal);
  Value zero = buildSplat(b, gradient.getType(), 0.0);
  return SelectOp::create(b, at, zero, gradient);
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

/// Returns the value that `x` is a view, transpose, cast or broadcast of.
static Value getSource(Value x) {
  while (true) {
    Value source = getMoved(x);
    if (auto broadcast = x.getDefiningOp<BroadcastOp>())
      source = broadcast.getX();
    if (!source)
      return x;
    x = source;
  }
}

static bool comesFromConstant(Value x) { return isConstant(getSource(x)); }

/// Returns the value of all elements of `x` if it is a splat constant.
static std::optional<double> getNumber(Value x) {
  DenseElementsAttr elements;
  if (!matchPattern(getSource(x), m_Constant(&elements)) ||
      !elements.isSplat() || !isa<FloatType>(elements.getElementType()))
    return std::nullopt;
  APFloat value = elements.getSplatValue<APFloat>();
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

bool mlir::binade::isConstantBetweenZeroAnd(Value x, double end) {
  std::optional<double> number = getNumber(x);
  return number && *number > 0.0 && *number < end;
}

bool mlir::binade::isNonZeroConstant(Value x) {
  DenseElementsAttr elements;
  return matchPattern(getSource(x), m_Constant(&elements)) &&
         isa<FloatType>(elements.getElementType()) &&
         llvm::none_of(elements.getValues<APFloat>(),
                       [](const APFloat &value) { return value.isZero(); });
}

//===----------------------------------------------------------------------===//
// Maximum and minimum
//===----------------------------------------------------------------------===//

/// The comparisons that hold for an operand that has not lost, and for one that
/// has won.
static Comparison isNotLost(Comparison loses) {
  return loses == Comparison::Less ? Comparison::GreaterEqual
                                   : Comparison::LessEqual;
}
static Comparison beats(Comparison loses) {
  return loses == Comparison::Less ? Comparison::Greater : Comparison::Less;
}

/// As in PyTorch's clamp, the bound gets no gradient.
static Value passWithinBound(ImplicitLocOpBuilder &b, bool isFlat, Value x,
                             Value bound, Value dy, Comparison loses) {
  Comparison within = isFlat ? beats(loses) : isNotLost(loses);
  return selectGradients(b, dy, CompareOp::create(b, x, bound, within)).front();
}

SmallVector<Value> mlir::binade::buildExtremeAdjoint(ImplicitLocOpBuilder &b,
                                                     Operation *op, Value dy,
                                                     Comparison loses) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  std::optional<Ties> ties = getTies(op);
  bool isFlat = ties == Ties::Flat;
  if (ties != Ties::Share && comesFromConstant(rhs))
    return {passWithinBound(b, isFlat, lhs, rhs, dy, loses), Value()};
  if (ties != Ties::Share && comesFromConstant(lhs))
    return {Value(), passWithinBound(b, isFlat, rhs, lhs, dy, loses)};
  if (ties == Ties::First)
    return selectGradients(b, dy,
                           CompareOp::create(b, lhs, rhs, isNotLost(loses)));
  if (isFlat)
    return {passWithinBound(b, true, lhs, rhs, dy, loses),
            passWithinBound(b, true, rhs, lhs, dy, loses)};
  // If an operand is NaN, neither loses: both get the whole gradient.
  Value half = MulOp::create(b, dy, buildSplat(b, dy.getType(), 0.5));
  Value isTie = CompareOp::create(b, lhs, rhs, Comparison::Equal);
  Value share = SelectOp::create(b, isTie, half, dy);
  Value zero = buildSplat(b, dy.getType(), 0.0);
  auto unlessLost = [&](Value own, Value other) -> Value {
    return SelectOp::create(b, CompareOp::create(b, own, other, loses), zero,
                            share);
  };
  return {unlessLost(lhs, rhs), unlessLost(rhs, lhs)};
}

bool mlir::binade::isBounded(Value x) {
  bool found = false;
  for (Operation *user : x.getUsers()) {
    bool bounds = isa<MaxOp>(user) &&
                  llvm::any_of(user->getOperands(), comesFromConstant);
    if (!bounds && !isa<CompareOp>(user)) // From the adjoint of `max`.
      return false;
    found |= bounds;
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

using IsMagnitude = llvm::function_ref<bool(Value)>;

static bool isPositive(Value x) {
  return isConstantBetweenZeroAnd(x, INFINITY);
}

static bool isEven(Value exponent) {
  std::optional<double> number = getNumber(exponent);
  return number && *number > 0.0 && std::fmod(*number, 2.0) == 0.0;
}

bool AbsOp::isMagnitude(IsMagnitude) { return true; }

bool MulOp::isMagnitude(IsMagnitude holds) {
  Value lhs = getLhs(), rhs = getRhs();
  return lhs == rhs || (isPositive(lhs) && holds(rhs)) ||
         (isPositive(rhs) && holds(lhs)) || (holds(lhs) && holds(rhs));
}

bool DivOp::isMagnitude(IsMagnitude holds) {
  return isPositive(getRhs()) && holds(getLhs());
}

bool PowOp::isMagnitude(IsMagnitude holds) {
  return isEven(getRhs()) || (isPositive(getRhs()) && holds(getLhs()));
}

bool AddOp::isMagnitude(IsMagnitude holds) {
  return llvm::all_of((*this)->getOperands(), [&](Value side) {
    return holds(side) || getNumber(side).value_or(-1.0) >= 0.0;
  });
}

/// A distance by the expansion of its square, (x - y)^2 = x^2 - 2 x y + y^2:
/// negative rounding errors are clamped to 0.
bool MaxOp::isMagnitude(IsMagnitude holds) {
  return getNumber(getRhs()) == 0.0 &&
         (isa_and_present<MatmulOp>(getLhs().getDefiningOp()) ||
          holds(getLhs()));
}

bool ConcatOp::isMagnitude(IsMagnitude holds) {
  return llvm::all_of(getInputs(), [&](Value part) {
    return getNumber(part) == 0.0 || holds(part);
  });
}

namespace {
/// Visits the ops that compute a value, each once.
class Magnitudes {
public:
  bool holds(Value x) {
    auto [known, isNew] = seen.try_emplace(x, false);
    if (!isNew)
      return known->second;
    auto op = x.getDefiningOp<AlgebraOpInterface>();
    bool result =
        op && op.isMagnitude([this](Value operand) { return holds(operand); });
    return seen[x] = result;
  }

private:
  DenseMap<Value, bool> seen;
};
} // namespace

bool mlir::binade::isSumOfMagnitudes(Value x) { return Magnitudes().holds(x); }
