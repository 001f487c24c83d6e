//===- AccumulateInMomentum.cpp - Accumulate in optimizer states ----------===//

#include "MomentumRule.h"
#include "Results.h"
#include "binade/IR/Build.h"
#include "binade/IR/Metrics.h"
#include "binade/Programs/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>

namespace mlir::binade {
#define GEN_PASS_DEF_ACCUMULATEINMOMENTUMPASS
#include "binade/Programs/Passes.h.inc"

namespace {
/// Suffixes of the derived rules.
constexpr StringLiteral kAdd = "add", kFinish = "finish";
constexpr StringLiteral kNorm = "grad_norm";

class MomentumAccumulator {
public:
  MomentumAccumulator(func::FuncOp step, int64_t batches)
      : step(step), batches(batches), b(step.getLoc(), step.getContext()) {}

  LogicalResult run() {
    if (failed(collect()))
      return failure();
    addCounters();
    for (auto &[rule, own] : rules)
      if (failed(derive(rule, own)))
        return failure();
    step.walk([&](UnscaleFactorOp op) { op.setBatches(batches); });
    reportMeanNorm();
    extract();
    apply(step, kFinish, isFirst);
    return success();
  }

private:
  /// The updates by one rule.
  struct Updates {
    llvm::SetVector<func::FuncOp> prepares;
    BitVector zeros;
    bool changesParameters = false;
  };

  OptimizerOp findRule(FlatSymbolRefAttr name) {
    return SymbolTable::lookupNearestSymbolFrom<OptimizerOp>(step, name);
  }

  LogicalResult collect() {
    if (!getResults(step, Role::Gradient).empty())
      return step.emitError(
          "gradients of several batches are added to optimizer "
          "states one by one, so that they cannot be kept");
    for (auto op : step.getOps<OptimizerUpdateOp>()) {
      if (op.getFactors().size() > 1)
        return op.emitOpError(
            "clips the gradient of several batches, whose sum "
            "is not computed when optimizer states accumulate "
            "it");
      Updates &own = rules[findRule(op.getOptimizerAttr())];
      if (FlatSymbolRefAttr prepare = op.getPrepareAttr())
        own.prepares.insert(
            SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, prepare));
      found = op.getSkip();
    }
    if (std::optional<Port> answered =
            findResult(step, Role::Metric, kAnsweredInf))
      found = getResultValue(step, answered->index);
    for (auto op : step.getOps<OptimizerScalarsOp>()) {
      OptimizerOp rule = findRule(op.getOptimizerAttr());
      BitVector zeros = findZeroScalars(rule, getInitials(op.getHypers()));
      Updates &own = rules[rule];
      if (own.zeros.empty())
        own.zeros = zeros;
      own.zeros &= zeros;
    }
    return success();
  }

  /// Returns the initial values of `hypers`; NaN for a value that is not an
  /// argument.
  SmallVector<double> getInitials(ValueRange hypers) {
    return llvm::map_to_vector(hypers, [&](Value hyper) {
      auto argument = dyn_cast<BlockArgument>(hyper);
      auto value = argument ? step.getArgAttrOfType<DenseFPElementsAttr>(
                                  argument.getArgNumber(), kInitAttr)
                            : DenseFPElementsAttr();
      return value ? value.getSplatValue<APFloat>().convertToDouble() : NAN;
    });
  }

  LogicalResult derive(OptimizerOp rule, Updates &own) {
    ArrayRef<func::FuncOp> prepares = own.prepares.getArrayRef();
    FailureOr<MomentumRule> add =
        deriveMomentumRule(rule, prepares, own.zeros, kAdd, /*isLast=*/false);
    if (failed(add))
      return failure();
    own.changesParameters = add->changesParameter;
    return deriveMomentumRule(rule, prepares, own.zeros, kFinish,
                              /*isLast=*/true);
  }

  /// Adds the accumulators of a step: the number of batches, whether one had
  /// gradients that are not finite (which skips the whole step, if it skips
  /// any), and the sum of the gradient norms divided by the number of batches.
  void addCounters() {
    auto number = RankedTensorType::get({}, b.getF64Type());
    auto truth = RankedTensorType::get({}, b.getI1Type());
    SmallVector<NewArgument> arguments = {
        {"batches", number, step.getLoc(), b.getZeroAttr(number)}};
    if (found)
      arguments.push_back(
          {kFoundInf.str(), truth, step.getLoc(), b.getZeroAttr(truth)});
    if (findResult(step, Role::Metric, kNorm))
      arguments.push_back(
          {kNorm.str(), number, step.getLoc(), b.getZeroAttr(number)});
    SmallVector<Value> values =
        addArguments(step, Role::Accumulator, arguments);
    b.setInsertionPointToStart(&step.front());
    Value one = buildSplat(b, number, 1.0);
    taken = AddOp::create(b, values[0], one);
    Value isAny = MinOp::create(b, values[0], one);
    isFirst = SubOp::create(b, one, isAny);
    if (found) {
      b.setInsertionPointAfterValue(found);
      foundAny = SelectOp::create(b, values[1], values[1], found);
      found.replaceAllUsesExcept(foundAny, foundAny.getDefiningOp());
    }
    for (Value made : {one, taken, isAny, isFirst, foundAny})
      if (made)
        setPhase(made.getDefiningOp(), Phase::Optimizer);
    if (values.size() > 1 + size_t(bool(found)))
      norms = values.back();
  }

  /// Reports the mean of the norms of the batches' gradients, an upper bound of
  /// the norm of their mean, which is never computed. The factor of a batch's
  /// gradient already divides its norm by the number of batches.
  void reportMeanNorm() {
    if (!norms)
      return;
    std::optional<Port> port = findResult(step, Role::Metric, kNorm);
    Value norm = getResultValue(step, port->index);
    b.setInsertionPoint(step.front().getTerminator());
    Value own = buildCast(b, norm, b.getF64Type());
    total = AddOp::create(b, norms, own);
    Value mean = buildCast(b, total, b.getF32Type());
    for (Value made : {own, total, mean})
      setPhase(made.getDefiningOp(), Phase::Optimizer);
    setResult(step, port->index, mean);
  }

  /// Adds the program for all but the last batch of a step. It returns the
  /// states, the parameters that change with each batch, and what the forward
  /// pass updates.
  void extract() {
    IRMapping mapping;
    func::FuncOp function = copyStep(step, kAccumulationName, mapping);
    SmallVector<NewResult> results = {
        {Role::Accumulator, "batches", mapping.lookup(taken)}};
    if (foundAny)
      results.push_back(
          {Role::Accumulator, kFoundInf.str(), mapping.lookup(foundAny)});
    if (total)
      results.push_back(
          {Role::Accumulator, kNorm.str(), mapping.lookup(total)});
    for (Role role : {Role::Parameter, Role::State})
      for (const Port &port : getResults(step, role)) {
        Value value = getResultValue(step, port.index);
        if (isKept(value))
          results.push_back({role, port.name.str(), mapping.lookup(value)});
      }
    apply(function, kAdd, mapping.lookup(isFirst));
    makeAccumulation(function, std::move(results), batches);
  }

  /// Whether `value`, a result of the step, is also a result of each other
  /// batch.
  bool isKept(Value value) {
    if (isa<BlockArgument>(value)) // It is not updated.
      return false;
    auto update = value.getDefiningOp<OptimizerUpdateOp>();
    if (!update || rules[findRule(update.getOptimizerAttr())].changesParameters)
      return true;
    Value companion = update.getCompanion();
    return value != update.getNewParameter() &&
           !(companion && value == update.getNewStates().back());
  }

  static FlatSymbolRefAttr getDerived(FlatSymbolRefAttr name, StringRef rule,
                                      StringRef suffix) {
    StringRef rest = name.getValue().drop_front(rule.size());
    return FlatSymbolRefAttr::get(name.getContext(),
                                  (rule + "." + suffix + rest).str());
  }

  /// Returns `isFirst` as a scalar for `update`, whose rule has no other
  /// scalars.
  Value buildFlag(OptimizerUpdateOp update, Value isFirst) {
    b.setInsertionPoint(update);
    Value flag = buildCast(b, isFirst, b.getF32Type());
    setPhase(flag.getDefiningOp(), Phase::Optimizer);
    return flag;
  }

  /// Makes `function` apply the derived rules with this suffix.
  void apply(func::FuncOp function, StringRef suffix, Value isFirst) {
    DenseMap<Operation *, Value>
        flags; ///< The added scalar of each `optimizer_scalars`.
    for (auto op :
         llvm::make_early_inc_range(function.getOps<OptimizerScalarsOp>())) {
      if (op.getScalars().empty()) { // It has no users.
        op.erase();
        continue;
      }
      SmallVector<Value> hypers(op.getHypers());
      hypers.push_back(isFirst);
      SmallVector<Type> types(op->getNumResults() + 1,
                              op.getScalars().front().getType());
      b.setInsertionPoint(op);
      auto derived = OptimizerScalarsOp::create(
          b, types, (op.getOptimizer() + "." + suffix).str(), op.getStep(),
          hypers);
      setPhase(derived, Phase::Optimizer);
      op.replaceAllUsesWith(derived.getScalars().drop_back());
      op.erase();
      flags[derived] = derived.getScalars().back();
    }
    for (auto op : function.getOps<OptimizerUpdateOp>()) {
      op.getScalarsMutable().append(
          op.getScalars().empty()
              ? buildFlag(op, isFirst)
              : flags.lookup(op.getScalars().front().getDefiningOp()));
      StringRef rule = op.getOptimizer();
      if (FlatSymbolRefAttr prepare = op.getPrepareAttr())
        op.setPrepareAttr(getDerived(prepare, rule, suffix));
      op.setOptimizerAttr(getDerived(op.getOptimizerAttr(), rule, suffix));
    }
  }

  func::FuncOp step;
  int64_t batches;
  ImplicitLocOpBuilder b;
  llvm::MapVector<OptimizerOp, Updates> rules;
  Value found, foundAny, taken, isFirst;
  Value norms, total; ///< The sum of norms before and after a batch.
};

struct AccumulateInMomentumPass
    : impl::AccumulateInMomentumPassBase<AccumulateInMomentumPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<func::FuncOp> step =
        findStepToAccumulate(getOperation(), batches);
    if (failed(step) ||
        (*step && failed(MomentumAccumulator(*step, batches).run())))
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
