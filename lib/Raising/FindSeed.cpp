//===- FindSeed.cpp - Detection of the gradient seed ----------------------===//
//
// Finds where a loss scale enters the backward pass. A value has degree 1 if it
// is proportional to the seed, and 0 if it does not depend on it. Gradients
// have degree 1, values of the forward pass 0, and each op relates the degrees
// of its operands and results. Known degrees are propagated to a fixed point;
// the remaining ones are found by backtracking.
//
//===----------------------------------------------------------------------===//

#include "FindSeed.h"
#include "binade/IR/Movement.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// A value or, for a constant that is added to others, one use of it: each use
/// may have another degree.
using Place = llvm::PointerUnion<Value, OpOperand *>;

class SeedFinder {
public:
  explicit SeedFinder(func::FuncOp function);

  std::optional<Seed> find();

private:
  using Degrees = DenseMap<Place, bool>;

  bool isBackward(Value value) const {
    Operation *op = value.getDefiningOp();
    return op && getPhase(op) == Phase::Backward;
  }
  std::optional<bool> get(const Degrees &degrees, Place place) const;
  bool set(Degrees &degrees, Place place, bool degree, bool &changed) const;
  bool propagate(Degrees &degrees) const;
  bool propagate(Degrees &degrees, Operation *op, bool &changed) const;
  bool solve(Degrees &degrees, ArrayRef<Place> open);

  func::FuncOp function;
  SmallVector<Operation *> ops;
  /// Backward values that depend on the forward pass only, and added constants.
  SetVector<Place> sources;
  unsigned tries = 256;
};
} // namespace

static bool isFloat(Value value) {
  return isa<FloatType>(getTensor(value).getElementType());
}

/// Whether `value` is a zero constant, or a reshape or broadcast of one.
static bool isZero(Value value) {
  Operation *op = value.getDefiningOp();
  return matchPattern(value, m_AnyZeroFloat()) ||
         (op && op->getNumOperands() == 1 &&
          (isMovement(op) || isa<BroadcastOp>(op)) &&
          isZero(op->getOperand(0)));
}

/// Whether `operand` is a constant that is added, which may be multiplied by
/// the seed. A constant factor of a product has degree 0.
static bool isAddedConstant(OpOperand &operand) {
  Operation *op = operand.get().getDefiningOp();
  auto reader = dyn_cast<AlgebraOpInterface>(operand.getOwner());
  return op && op->hasTrait<OpTrait::ConstantLike>() && reader &&
         reader.hasTerms() && isFloat(operand.get()) && !isZero(operand.get());
}

static Place getPlace(OpOperand &operand) {
  if (isAddedConstant(operand))
    return &operand;
  return operand.get();
}

/// Returns in which operands `op` is linear. Products with other than two
/// floating-point operands, such as a matmul with a bias, count as not linear.
static Linearity getLinearity(Operation *op) {
  auto algebra = dyn_cast<AlgebraOpInterface>(op);
  Linearity linearity = algebra ? algebra.getLinearity() : Linearity::None;
  if (linearity == Linearity::Product &&
      llvm::count_if(op->getOperands(), isFloat) != 2)
    return Linearity::None;
  return linearity;
}

SeedFinder::SeedFinder(func::FuncOp function) : function(function) {
  for (Operation &op : function.front().without_terminator()) {
    if (getPhase(&op) != Phase::Backward)
      continue;
    if (llvm::none_of(op.getOperands(),
                      [&](Value x) { return isBackward(x) && isFloat(x); }) &&
        op.getNumResults() == 1 && isFloat(op.getResult(0)) && !isMovement(&op))
      sources.insert(op.getResult(0));
    else
      ops.push_back(&op);
  }
  for (Operation *op : ops)
    for (OpOperand &operand : op->getOpOperands())
      if (isAddedConstant(operand))
        sources.insert(&operand);
}

std::optional<bool> SeedFinder::get(const Degrees &degrees, Place place) const {
  if (auto value = dyn_cast<Value>(place); value && !isBackward(value))
    return false;
  auto found = degrees.find(place);
  return found == degrees.end() ? std::nullopt : std::optional(found->second);
}

/// Sets the degree of `place`; returns false if it has the other one.
bool SeedFinder::set(Degrees &degrees, Place place, bool degree,
                     bool &changed) const {
  std::optional<bool> known = get(degrees, place);
  if (!known) {
    degrees[place] = degree;
    changed = true;
  }
  return !known || *known == degree;
}

bool SeedFinder::propagate(Degrees &degrees, Operation *op,
                           bool &changed) const {
  SmallVector<Place> values, results;
  Linearity linearity = getLinearity(op);
  for (OpOperand &operand : op->getOpOperands())
    if (isFloat(operand.get()) &&
        !(linearity == Linearity::Joint && isZero(operand.get())))
      values.push_back(getPlace(operand));
  for (Value result : op->getResults())
    if (isFloat(result))
      results.push_back(result);
  // A joint result has the degree of all operands but zeros. A product has
  // degree 1 if exactly one factor has it. A result that is linear in the first
  // operand has its degree; the others have 0, as has everything if there is no
  // linearity.
  switch (linearity) {
  case Linearity::Joint: {
    llvm::append_range(values, results);
    for (Place value : values)
      if (std::optional<bool> degree = get(degrees, value))
        return llvm::all_of(values, [&](Place other) {
          return set(degrees, other, *degree, changed);
        });
    return true;
  }
  case Linearity::Product: {
    Place lhs = values[0], rhs = values[1], y = results[0];
    std::optional<bool> left = get(degrees, lhs), right = get(degrees, rhs),
                        product = get(degrees, y);
    if (lhs == rhs)
      return set(degrees, lhs, false, changed) &&
             set(degrees, y, false, changed);
    if (left && right)
      return !(*left && *right) && set(degrees, y, *left || *right, changed);
    if (!product)
      return true;
    if (!*product)
      return set(degrees, lhs, false, changed) &&
             set(degrees, rhs, false, changed);
    if (left)
      return set(degrees, rhs, !*left, changed);
    return !right || set(degrees, lhs, !*right, changed);
  }
  case Linearity::First: {
    for (Place other : ArrayRef(values).drop_front())
      if (!set(degrees, other, false, changed))
        return false;
    for (Place y : results) {
      std::optional<bool> first = get(degrees, values[0]),
                          result = get(degrees, y);
      if (first && !set(degrees, y, *first, changed))
        return false;
      if (result && !set(degrees, values[0], *result, changed))
        return false;
    }
    return true;
  }
  case Linearity::None:
    llvm::append_range(values, results);
    return llvm::all_of(values, [&](Place value) {
      return set(degrees, value, false, changed);
    });
  }
  llvm_unreachable("all cases are listed");
}

/// Propagates degrees to a fixed point; returns false on a contradiction.
bool SeedFinder::propagate(Degrees &degrees) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation *op : ops)
      if (!propagate(degrees, op, changed))
        return false;
    for (Operation *op : llvm::reverse(ops))
      if (!propagate(degrees, op, changed))
        return false;
  }
  return true;
}

bool SeedFinder::solve(Degrees &degrees, ArrayRef<Place> open) {
  if (tries == 0 || !propagate(degrees))
    return false;
  --tries;
  while (!open.empty() && get(degrees, open.front()))
    open = open.drop_front();
  if (open.empty())
    return true;
  for (bool degree : {true, false}) {
    Degrees attempt = degrees;
    attempt[open.front()] = degree;
    if (solve(attempt, open.drop_front())) {
      degrees = std::move(attempt);
      return true;
    }
  }
  return false;
}

std::optional<Seed> SeedFinder::find() {
  Degrees degrees;
  for (const Port &port : getResults(function, Role::Gradient)) {
    Value gradient = getResultValue(function, port.index);
    if (!isBackward(gradient))
      return std::nullopt;
    degrees[gradient] = true;
  }
  if (!solve(degrees, sources.getArrayRef()))
    return std::nullopt;
  Seed seed;
  for (Place source : sources)
    if (degrees.lookup(source)) {
      if (auto value = dyn_cast<Value>(source))
        seed.values.push_back(value);
      else
        seed.constants.push_back(cast<OpOperand *>(source));
    }
  return seed;
}

std::optional<Seed> mlir::binade::findSeed(func::FuncOp function) {
  return SeedFinder(function).find();
}
