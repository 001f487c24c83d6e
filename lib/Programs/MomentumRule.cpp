//===- MomentumRule.cpp - Rules that accumulate in states -----------------===//

#include "MomentumRule.h"
#include "binade/IR/Rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr StringLiteral kIsFirst = "is_first";
static constexpr unsigned kParameter = 0, kGradient = 1, kStates = 2;

/// Returns the values of `function` that depend on the arguments `sources`.
static DenseSet<Value> getReached(func::FuncOp function,
                                  const BitVector &sources) {
  DenseSet<Value> reached;
  for (unsigned index : sources.set_bits())
    reached.insert(function.getArgument(index));
  auto findThose = [&](ValueRange values) {
    BitVector found(values.size());
    for (auto [index, value] : llvm::enumerate(values))
      found[index] = reached.contains(value);
    return found;
  };
  for (Operation &op : function.front()) {
    BitVector operands = findThose(op.getOperands());
    if (operands.none())
      continue;
    auto call = dyn_cast<func::CallOp>(op);
    if (!call) {
      reached.insert_range(op.getResults());
      continue;
    }
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        function, call.getCalleeAttr());
    DenseSet<Value> inside = getReached(callee, operands);
    for (auto [result, value] : llvm::zip(
             op.getResults(), callee.front().getTerminator()->getOperands()))
      if (inside.contains(value))
        reached.insert(result);
  }
  return reached;
}

static InFlightDiagnostic refuse(OptimizerOp rule, const Twine &reason) {
  return emitError(rule.getLoc(), "optimizer '")
         << rule.getSymName()
         << "' cannot add the gradients of several batches to its states one "
            "by "
            "one: "
         << reason << "; accumulating a sum of gradients works with every rule";
}

namespace {
/// Rewrites a copy of `@<rule>.update`.
class Derivation {
public:
  Derivation(OptimizerOp rule, func::FuncOp update, unsigned scalars,
             const BitVector &marks)
      : rule(rule), update(update), states(rule.getStates().size()),
        scalars(scalars), marks(marks),
        b(update.getLoc(), update.getContext()) {}

  /// Replaces scalars that are 0, and multiplications by them, by 0.
  void assumeZeros(const BitVector &zeros) {
    b.setInsertionPointToStart(&update.front());
    for (unsigned scalar : zeros.set_bits())
      getScalar(scalar).replaceAllUsesWith(buildNumber(0.0));
    for (Operation &op : update.front())
      if (isa<arith::MulFOp>(op) && llvm::any_of(op.getOperands(), [](Value x) {
            return matchPattern(x, m_AnyZeroFloat());
          }))
        op.getResult(0).replaceAllUsesWith(buildNumber(0.0));
  }

  LogicalResult prove() {
    unsigned count = update.getNumArguments();
    BitVector gradient(count), tensors(count), given(count);
    gradient.set(kGradient);
    fromGradient = getReached(update, gradient);
    tensors.set(kParameter, kStates + states);
    fromTensors = getReached(update, tensors);
    for (unsigned mark : marks.set_bits())
      given.set(kStates + states + scalars + mark);
    fromMarks = getReached(update, given);

    Operation *end = update.front().getTerminator();
    for (unsigned state = 0; state < states; ++state)
      if (Value root = end->getOperand(1 + state); fromGradient.contains(root))
        roots[root] = state;
    for (auto [root, state] : roots)
      if (failed(proveSum(root, root, state)))
        return failure();
    DenseSet<Value> seen;
    for (Value result : end->getOperands())
      if (failed(proveReads(result, seen)))
        return failure();
    return success();
  }

  /// Makes states accumulate the gradient. Returns whether the parameter may
  /// change in a batch that is not the last.
  bool rewrite(bool isLast) {
    unsigned place = kStates + states + scalars;
    (void)update.insertArgument(place, b.getF32Type(), {}, update.getLoc());
    Value isFirst = update.getArgument(place);
    Operation *end = update.front().getTerminator();
    bool changes = false;
    if (!isLast) {
      for (Operation &op : update.front())
        if (llvm::any_of(op.getOperands(), [&](Value x) {
              return roots.contains(x) || fromRoots.contains(x);
            }))
          fromRoots.insert_range(op.getResults());
      b.setInsertionPoint(end);
      Value kept = keepUntilLast(end->getOperand(0));
      changes = kept != update.getArgument(kParameter);
      end->setOperand(0, kept);
    }
    for (auto [root, state] : roots) {
      b.setInsertionPointAfterValue(root);
      Value before = update.getArgument(kStates + state);
      Value begins = arith::CmpFOp::create(b, arith::CmpFPredicate::ONE,
                                           isFirst, buildNumber(0.0));
      Value more = addTo(before, root);
      auto sum = arith::SelectOp::create(b, begins, root, more);
      root.replaceAllUsesExcept(sum, sum);
    }
    return changes;
  }

private:
  Value getScalar(unsigned index) {
    return update.getArgument(kStates + states + index);
  }
  Value buildNumber(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }

  LogicalResult refuse(Value value, const Twine &reason) {
    InFlightDiagnostic error = ::refuse(rule, reason);
    error.attachNote(value.getLoc()) << "here";
    return error;
  }
  StringRef getName(unsigned state) {
    return cast<SettingAttr>(rule.getStates()[state]).getName().getValue();
  }

  /// Whether `condition` is the same in all batches, apart from values that a
  /// `prepare` computes from each gradient.
  bool isChoice(Value condition) { return !fromTensors.contains(condition); }

  /// Proves that `value`, a part of `root`, is a sum of a multiple of the
  /// gradient and of something independent of it.
  LogicalResult proveSum(Value value, Value root, unsigned state) {
    if (value == update.getArgument(kGradient))
      return success();
    if (value != root && roots.contains(value))
      return refuse(value, "'" + getName(state) + "' reads '" +
                               getName(roots.lookup(value)) + "'");
    if (!fromGradient.contains(value)) {
      if (!fromMarks.contains(value))
        return success();
      return refuse(value,
                    "'" + getName(state) +
                        "' reads a value computed from the whole gradient");
    }
    Operation *op = value.getDefiningOp();
    auto proveAll = [&](ValueRange parts) {
      return success(llvm::all_of(parts, [&](Value part) {
        return succeeded(proveSum(part, root, state));
      }));
    };
    auto isFactor = [&](Value x) {
      return !fromTensors.contains(x) && !fromMarks.contains(x);
    };
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<arith::AddFOp, arith::SubFOp, arith::NegFOp>(
            [&](auto) { return proveAll(op->getOperands()); })
        .Case([&](arith::MulFOp product) {
          if (isFactor(product.getLhs()))
            return proveAll(product.getRhs());
          if (isFactor(product.getRhs()))
            return proveAll(product.getLhs());
          return refuse(value, "'" + getName(state) +
                                   "' is not a sum of multiples of gradients");
        })
        .Case([&](arith::SelectOp select) {
          if (!isChoice(select.getCondition()))
            return refuse(value, "'" + getName(state) +
                                     "' depends on a condition that changes "
                                     "from batch to batch");
          return proveAll({select.getTrueValue(), select.getFalseValue()});
        })
        .Default([&](Operation *) {
          return refuse(value, "'" + getName(state) +
                                   "' is not a sum of multiples of gradients");
        });
  }

  /// Proves that `value` depends on the gradient only through states.
  LogicalResult proveReads(Value value, DenseSet<Value> &seen) {
    if (roots.contains(value) || !seen.insert(value).second)
      return success();
    Operation *op = value.getDefiningOp();
    if (!op)
      return success();
    auto select = dyn_cast<arith::SelectOp>(op);
    bool chooses = select && isChoice(select.getCondition());
    for (Value operand : op->getOperands().drop_front(chooses)) {
      bool isWhole = isa<BlockArgument>(operand) && fromMarks.contains(operand);
      if (isWhole || operand == update.getArgument(kGradient))
        return refuse(value,
                      Twine("in addition to the states, the parameter reads ") +
                          (isWhole ? "a value computed from the gradient"
                                   : "the gradient itself"));
      if (failed(proveReads(operand, seen)))
        return failure();
    }
    return success();
  }

  /// Returns the new value of `value`, a part of a state, if `before` has
  /// accumulated batches already.
  Value addTo(Value before, Value value) {
    if (!fromGradient.contains(value))
      return before;
    if (auto select = value.getDefiningOp<arith::SelectOp>())
      return arith::SelectOp::create(b, select.getCondition(),
                                     addTo(before, select.getTrueValue()),
                                     addTo(before, select.getFalseValue()));
    return arith::AddFOp::create(b, before, buildMultiple(value));
  }

  /// Returns the part of `value` that is a multiple of the gradient; null for
  /// none.
  Value buildMultiple(Value value) {
    if (!fromGradient.contains(value) || isa<BlockArgument>(value))
      return fromGradient.contains(value) ? value : Value();
    Operation *op = value.getDefiningOp();
    if (auto product = dyn_cast<arith::MulFOp>(op)) {
      bool isLeft = fromGradient.contains(product.getLhs());
      Value inside =
          buildMultiple(isLeft ? product.getLhs() : product.getRhs());
      Value factor = isLeft ? product.getRhs() : product.getLhs();
      return arith::MulFOp::create(b, factor, inside);
    }
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      Value left = buildMultiple(select.getTrueValue());
      Value right = buildMultiple(select.getFalseValue());
      return arith::SelectOp::create(b, select.getCondition(),
                                     left ? left : buildNumber(0.0),
                                     right ? right : buildNumber(0.0));
    }
    if (isa<arith::NegFOp>(op))
      return arith::NegFOp::create(b, buildMultiple(op->getOperand(0)));
    Value left = buildMultiple(op->getOperand(0));
    Value right = buildMultiple(op->getOperand(1));
    if (isa<arith::AddFOp>(op))
      return left && right ? arith::AddFOp::create(b, left, right)
                           : (left ? left : right);
    if (!right)
      return left;
    return left ? Value(arith::SubFOp::create(b, left, right))
                : Value(arith::NegFOp::create(b, right));
  }

  /// Returns the parameter after a batch that is not the last, if it were
  /// `value` after the last.
  Value keepUntilLast(Value value) {
    Value parameter = update.getArgument(kParameter);
    auto select = value.getDefiningOp<arith::SelectOp>();
    if (!select || !fromMarks.contains(select.getCondition()))
      return parameter;
    auto choose = [&](Value part) {
      return fromRoots.contains(part) ? keepUntilLast(part) : part;
    };
    Value left = choose(select.getTrueValue()),
          right = choose(select.getFalseValue());
    if (left == parameter && right == parameter)
      return parameter;
    return arith::SelectOp::create(b, select.getCondition(), left, right);
  }

  OptimizerOp rule;
  func::FuncOp update;
  unsigned states, scalars;
  BitVector marks; ///< Values of a `prepare` that depend on the gradient.
  ImplicitLocOpBuilder b;
  DenseSet<Value> fromGradient, fromMarks, fromTensors, fromRoots;
  llvm::MapVector<Value, unsigned>
      roots; ///< New states that depend on the gradient.
};
} // namespace

//===----------------------------------------------------------------------===//
// Functions of the derived rule
//===----------------------------------------------------------------------===//

static func::FuncOp lookUp(OptimizerOp rule, StringRef name) {
  return rule->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(name);
}

static func::FuncOp copy(func::FuncOp function, const Twine &name) {
  func::FuncOp result = function.clone();
  result.setName(name.str());
  function->getParentOfType<ModuleOp>().insert(
      std::next(function->getIterator()), result);
  return result;
}

/// Returns which results of `prepare`, after its states, depend on the
/// gradient.
static FailureOr<BitVector> findMarks(OptimizerOp rule, func::FuncOp prepare) {
  BitVector gradient(prepare.getNumArguments());
  gradient.set(kGradient);
  DenseSet<Value> reached = getReached(prepare, gradient);
  BitVector marks;
  unsigned result = 0;
  Operation *end = prepare.front().getTerminator();
  for (unsigned state = 0; state < rule.getStates().size(); ++state)
    if (!isElementwise(prepare, state) &&
        reached.contains(end->getOperand(result++)))
      return refuse(
          rule,
          "'" +
              cast<SettingAttr>(rule.getStates()[state]).getName().getValue() +
              "' is computed from the whole gradient");
  for (Value value : end->getOperands().drop_front(result))
    marks.push_back(reached.contains(value));
  return marks;
}

static void addHyper(OptimizerOp rule) {
  Builder b(rule.getContext());
  SmallVector<Attribute> hypers(rule.getHypers().begin(),
                                rule.getHypers().end());
  hypers.push_back(SettingAttr::get(rule.getContext(),
                                    b.getStringAttr(kIsFirst),
                                    b.getF64FloatAttr(0.0), {}, {}, {}));
  rule.setHypersAttr(b.getArrayAttr(hypers));
}

static void addScalar(func::FuncOp scalars) {
  Type f64 = Float64Type::get(scalars.getContext());
  unsigned count = scalars.getNumArguments();
  (void)scalars.insertArgument(count, f64, {}, scalars.getLoc());
  Operation *end = scalars.front().getTerminator();
  end->insertOperands(end->getNumOperands(), scalars.getArgument(count));
  (void)scalars.insertResult(scalars.getNumResults(), f64, {});
}

FailureOr<MomentumRule> mlir::binade::deriveMomentumRule(
    OptimizerOp rule, ArrayRef<func::FuncOp> prepares, const BitVector &zeros,
    StringRef suffix, bool isLast) {
  std::string name = (rule.getSymName() + "." + suffix).str();
  auto getCopyName = [&](func::FuncOp function) {
    return name + function.getName().drop_front(rule.getSymName().size()).str();
  };
  func::FuncOp scalars = lookUp(rule, (rule.getSymName() + ".scalars").str());
  func::FuncOp update = lookUp(rule, (rule.getSymName() + ".update").str());
  BitVector marks;
  for (func::FuncOp prepare : prepares) {
    FailureOr<BitVector> own = findMarks(rule, prepare);
    if (failed(own))
      return failure();
    marks |= *own;
  }
  func::FuncOp formula = copy(update, getCopyName(update));
  Derivation derivation(rule, formula, scalars.getNumResults(), marks);
  derivation.assumeZeros(zeros);
  if (failed(derivation.prove()))
    return failure();
  MomentumRule result;
  result.changesParameter = derivation.rewrite(isLast);
  for (func::FuncOp prepare : prepares) {
    func::FuncOp own = copy(prepare, getCopyName(prepare));
    Type number =
        RankedTensorType::get({}, Float32Type::get(rule.getContext()));
    (void)own.insertArgument(kStates + rule.getStates().size() +
                                 scalars.getNumResults(),
                             number, {}, own.getLoc());
  }
  addScalar(copy(scalars, getCopyName(scalars)));
  result.rule = cast<OptimizerOp>(rule->clone());
  result.rule.setSymName(name);
  rule->getParentOfType<ModuleOp>().insert(rule, result.rule);
  addHyper(result.rule);
  return result;
}

BitVector mlir::binade::findZeroScalars(OptimizerOp rule,
                                        ArrayRef<double> hypers) {
  OwningOpRef<func::FuncOp> scalars =
      lookUp(rule, (rule.getSymName() + ".scalars").str()).clone();
  Block &body = scalars->front();
  OpBuilder b = OpBuilder::atBlockBegin(&body);
  for (auto [argument, value] :
       llvm::zip(body.getArguments().drop_front(), hypers))
    argument.replaceAllUsesWith(arith::ConstantOp::create(
        b, scalars->getLoc(), b.getF64FloatAttr(value)));
  for (Operation &op : llvm::make_early_inc_range(body)) {
    SmallVector<Value> folded;
    b.setInsertionPoint(&op);
    if (!op.hasTrait<OpTrait::ConstantLike>() &&
        succeeded(b.tryFold(&op, folded)) && !folded.empty()) {
      op.replaceAllUsesWith(folded);
      op.erase();
    }
  }
  BitVector zeros;
  for (Value result : body.getTerminator()->getOperands())
    zeros.push_back(matchPattern(result, m_AnyZeroFloat()));
  return zeros;
}
