//===- CapUpdates.cpp - Limit the norm of updates -------------------------===//
//
// Works for any rule: `update` is a formula for one element, and the same
// formula on whole tensors gives the norm of the change. Each `prepare` of the
// rule, or a new one, also computes the factor by which the change has to be
// shortened, and `update` multiplies by it.
//
//===----------------------------------------------------------------------===//

#include "CapUpdates.h"
#include "Formulas.h"
#include "binade/IR/Build.h"
#include "binade/IR/Rules.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Translates formulas of one element to ops on whole tensors.
class Lifter {
public:
  Lifter(ImplicitLocOpBuilder &b, RankedTensorType type) : b(b), type(type) {}

  /// Returns result `index` of `formula`; null if an op has no equivalent on
  /// tensors.
  Value lift(func::FuncOp formula, unsigned index, ValueRange arguments) {
    for (auto [element, tensor] : llvm::zip(formula.getArguments(), arguments))
      known[element] = buildBroadcast(b, tensor, {}, type.getShape());
    return lift(formula.front().getTerminator()->getOperand(index));
  }

private:
  Value lift(Value element) {
    if (Value tensor = known.lookup(element))
      return tensor;
    Operation *op = element.getDefiningOp();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(lift(operand));
      if (!operands.back())
        return {};
    }
    Value tensor = lift(op, operands);
    if (!tensor)
      op->emitError("'") << op->getName()
                         << "' cannot be applied to whole tensors, which '"
                         << kUpdateCap << "' needs";
    return known[element] = tensor;
  }

  Value lift(Operation *op, ArrayRef<Value> x) {
    return llvm::TypeSwitch<Operation *, Value>(op)
        .Case([&](arith::ConstantOp constant) {
          auto number = cast<FloatAttr>(constant.getValue());
          return buildSplat(b, type, number.getValueAsDouble());
        })
        .Case([&](arith::AddFOp) { return AddOp::create(b, x[0], x[1]); })
        .Case([&](arith::SubFOp) { return SubOp::create(b, x[0], x[1]); })
        .Case([&](arith::MulFOp) { return MulOp::create(b, x[0], x[1]); })
        .Case([&](arith::DivFOp) { return DivOp::create(b, x[0], x[1]); })
        .Case([&](arith::MaximumFOp) { return MaxOp::create(b, x[0], x[1]); })
        .Case([&](arith::MinimumFOp) { return MinOp::create(b, x[0], x[1]); })
        .Case([&](arith::NegFOp) { return NegOp::create(b, x[0]); })
        .Case([&](math::AbsFOp) { return AbsOp::create(b, x[0]); })
        .Case([&](math::SqrtOp) { return SqrtOp::create(b, x[0]); })
        .Case([&](math::ExpOp) { return ExpOp::create(b, x[0]); })
        .Case([&](math::LogOp) { return LogOp::create(b, x[0]); })
        .Case([&](math::PowFOp) { return PowOp::create(b, x[0], x[1]); })
        // Rounded twice, which changes the last bits of the norm only.
        .Case([&](math::FmaOp) {
          return AddOp::create(b, MulOp::create(b, x[0], x[1]), x[2]);
        })
        .Case([&](math::CopySignOp) { return copySign(x[0], x[1]); })
        .Case([&](arith::SelectOp) {
          return SelectOp::create(b, x[0], x[1], x[2]);
        })
        .Case([&](arith::CmpFOp compare) {
          return liftComparison(compare.getPredicate(), x[0], x[1]);
        })
        .Default(Value());
  }

  /// A negative zero counts as positive.
  Value copySign(Value magnitude, Value sign) {
    Value size = AbsOp::create(b, magnitude);
    Value isNegative =
        CompareOp::create(b, sign, buildSplat(b, type, 0.0), Comparison::Less);
    return SelectOp::create(b, isNegative, NegOp::create(b, size), size);
  }

  Value liftComparison(arith::CmpFPredicate predicate, Value x, Value y) {
    auto compare = [&](Comparison comparison) -> Value {
      return CompareOp::create(b, x, y, comparison);
    };
    switch (predicate) {
    case arith::CmpFPredicate::OEQ:
      return compare(Comparison::Equal);
    case arith::CmpFPredicate::UNE:
      return NotOp::create(b, compare(Comparison::Equal));
    case arith::CmpFPredicate::ONE:
      return OrOp::create(b, compare(Comparison::Less),
                          compare(Comparison::Greater));
    case arith::CmpFPredicate::OLT:
      return compare(Comparison::Less);
    case arith::CmpFPredicate::OLE:
      return compare(Comparison::LessEqual);
    case arith::CmpFPredicate::OGT:
      return compare(Comparison::Greater);
    case arith::CmpFPredicate::OGE:
      return compare(Comparison::GreaterEqual);
    default:
      return {};
    }
  }

  ImplicitLocOpBuilder &b;
  RankedTensorType type;
  DenseMap<Value, Value> known;
};

class Capper {
public:
  explicit Capper(OptimizerOp rule)
      : rule(rule), module(rule->getParentOfType<ModuleOp>()),
        b(rule.getLoc(), rule.getContext()),
        scalars(findFormula(rule, ".scalars")),
        update(findFormula(rule, ".update")) {}

  LogicalResult run() {
    auto hypers = llvm::to_vector(rule.getHypers().getAsRange<SettingAttr>());
    auto *rate = llvm::find_if(
        hypers, [](SettingAttr setting) { return setting.getName() == kRate; });
    if (rate == hypers.end())
      return rule.emitError("has no setting '")
             << kRate << "', which '" << kUpdateCap << "' multiplies";
    if (findEvaluationOffset(rule))
      return rule.emitError("evaluates other weights than the parameter, "
                            "whose changes alone '")
             << kUpdateCap << "' caps; leave it out";
    if (drawsRandomValue(update))
      return update.emitError("draws random values, which '")
             << kUpdateCap << "' cannot reproduce";
    afterScalars = 2 + scalars.getNumResults();
    SmallVector<func::FuncOp> prepares = getPrepares(rule);
    func::FuncOp any = prepares.empty() ? func::FuncOp() : prepares.front();
    for (unsigned state = 0; state < rule.getStates().size(); ++state)
      afterScalars += isElementwise(any, state);

    if (prepares.empty() && failed(addPrepare()))
      return failure();
    for (func::FuncOp prepare : prepares)
      if (failed(wrap(prepare)))
        return failure();
    scaleChange();
    addLimit(std::distance(hypers.begin(), rate));
    return success();
  }

private:
  Operation *getReturn(func::FuncOp function) {
    return function.front().getTerminator();
  }
  func::FuncOp create(StringRef name, TypeRange inputs, TypeRange outputs) {
    b.setInsertionPoint(update);
    auto function =
        func::FuncOp::create(b, name, b.getFunctionType(inputs, outputs));
    function.setPrivate();
    b.setInsertionPointToStart(function.addEntryBlock());
    return function;
  }

  /// Adds a `prepare` to a rule that has none.
  LogicalResult addPrepare() {
    Type number = RankedTensorType::get({}, b.getF32Type());
    Type vector = RankedTensorType::get({2}, b.getF32Type());
    SmallVector<Type> inputs(2 + rule.getStates().size(), vector);
    inputs.append(scalars.getNumResults() + 1, number);
    auto prepare =
        create((rule.getSymName() + ".prepare").str(), inputs, {number});
    return finish(prepare, {});
  }

  /// Renames `prepare` and adds a function with its name, which calls it and
  /// does more. Formulas that called `prepare` still call the renamed one.
  LogicalResult wrap(func::FuncOp prepare) {
    std::string name = prepare.getName().str();
    std::string inner = (rule.getSymName() + ".uncapped" +
                         StringRef(name).drop_front(rule.getSymName().size()))
                            .str();
    (void)SymbolTable::replaceAllSymbolUses(prepare, b.getStringAttr(inner),
                                            module);
    prepare.setName(inner);
    Type number = RankedTensorType::get({}, b.getF32Type());
    SmallVector<Type> inputs(prepare.getArgumentTypes());
    SmallVector<Type> outputs(prepare.getResultTypes());
    inputs.push_back(number);
    outputs.push_back(number);
    func::FuncOp outer = create(name, inputs, outputs);
    auto call = func::CallOp::create(
        b, prepare, ValueRange(outer.getArguments()).drop_back());
    return finish(outer, call.getResults());
  }

  /// Builds the end of a `prepare`: returns `results` and the factor of the
  /// change.
  LogicalResult finish(func::FuncOp prepare, ValueRange results) {
    ValueRange given = prepare.getArguments();
    auto type = cast<RankedTensorType>(given[0].getType());
    SmallVector<Value> arguments(given.take_front(2));
    unsigned values = 0;
    for (unsigned state = 0; state < rule.getStates().size(); ++state)
      if (isElementwise(prepare, state))
        arguments.push_back(given[2 + state]);
      else
        ++values;
    llvm::append_range(
        arguments, given.drop_front(2 + rule.getStates().size()).drop_back());
    llvm::append_range(arguments, results.drop_front(values));
    Value after = Lifter(b, type).lift(update, 0, arguments);
    if (!after)
      return failure();
    Value change = SubOp::create(b, after, given[0]);
    Value most = MulOp::create(b, given.back(), buildNorm(given[0]));
    Value length = buildNorm(change);
    Value isLonger = CompareOp::create(b, length, most, Comparison::Greater);
    // A cap of 0 has no effect; otherwise a parameter of zeros could never
    // change.
    Value isCapped = CompareOp::create(
        b, most, buildSplat(b, most.getType(), 0.0), Comparison::Greater);
    Value ratio = SelectOp::create(b, AndOp::create(b, isLonger, isCapped),
                                   DivOp::create(b, most, length),
                                   buildSplat(b, most.getType(), 1.0));
    SmallVector<Value> all(results);
    all.push_back(ratio);
    func::ReturnOp::create(b, all);
    return success();
  }

  Value buildNorm(Value x) {
    Value wide = buildCast(b, x, b.getF64Type());
    Value squares = MulOp::create(b, wide, wide);
    int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
    Value sum = ReduceSumOp::create(
        b, squares, llvm::to_vector(llvm::seq<int64_t>(0, rank)));
    return buildCast(b, SqrtOp::create(b, sum), b.getF32Type());
  }

  /// Adds the limit, which it does not use, and the factor to the arguments of
  /// `update`.
  void scaleChange() {
    Type f32 = b.getF32Type();
    (void)update.insertArgument(afterScalars, f32, {}, b.getLoc());
    (void)update.insertArgument(update.getNumArguments(), f32, {}, b.getLoc());
    Value before = update.getArgument(0), ratio = update.getArguments().back();
    b.setInsertionPoint(getReturn(update));
    Value after = getReturn(update)->getOperand(0);
    Value change = arith::SubFOp::create(b, after, before);
    Value shortened = arith::AddFOp::create(
        b, before, arith::MulFOp::create(b, ratio, change));
    // A change that is not capped keeps its bits.
    Value isWhole = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, ratio,
                                          splat(b, ratio, 1.0));
    getReturn(update)->setOperand(
        0, arith::SelectOp::create(b, isWhole, after, shortened));
  }

  /// Adds the setting, and one more scalar with it.
  void addLimit(unsigned rate) {
    FloatAttr zero = b.getF64FloatAttr(0.0);
    Value limit =
        addSetting(rule, scalars,
                   SettingAttr::get(b.getContext(), b.getStringAttr(kUpdateCap),
                                    zero, zero, FloatAttr(), FloatAttr()));
    b.setInsertionPoint(getReturn(scalars));
    addResult(scalars,
              arith::MulFOp::create(b, scalars.getArgument(1 + rate), limit));
  }

  OptimizerOp rule;
  ModuleOp module;
  ImplicitLocOpBuilder b;
  func::FuncOp scalars, update;
  /// The position of the new scalar among the arguments of `update`.
  unsigned afterScalars = 0;
};
} // namespace

LogicalResult mlir::binade::capUpdates(OptimizerOp rule) {
  return Capper(rule).run();
}
