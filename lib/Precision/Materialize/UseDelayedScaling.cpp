//===- UseDelayedScaling.cpp - Scales from the amax of earlier steps ------===//
//
// A `quantize` whose format has a history gets an amax that is known before its
// tensor is computed: a buffer, which the step replaces by the largest
// magnitude of its own tensor and of the history. The next step uses it.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/DelayedScales.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Names.h"
#include "binade/Precision/Passes.h"
#include "llvm/Support/ScopedPrinter.h"
#include <cmath>

namespace mlir::binade {
#define GEN_PASS_DEF_USEDELAYEDSCALINGPASS
#include "binade/Precision/Passes.h.inc"

namespace {
class ScaleDelayer {
public:
  /// `halfLife` is the number of steps after which a magnitude counts half;
  /// with 0, magnitudes count in full until they leave their histories.
  ScaleDelayer(func::FuncOp step, int64_t halfLife)
      : step(step), halfLife(halfLife), b(step.getLoc(), step.getContext()) {}

  void run() {
    collect();
    SmallVector<NewArgument> arguments;
    for (Delayed &one : delayed) {
      // The amax with which the first scale is 1.
      arguments.push_back({(kAmaxPrefix + one.name).str(), scalar(),
                           one.op.getLoc(),
                           splat(scalar(), one.op.getFormat().getPeak())});
      if (RankedTensorType history = getHistoryType(one.op))
        arguments.push_back({(kAmaxHistoryPrefix + one.name).str(), history,
                             one.op.getLoc(), splat(history, 0.0)});
    }
    SmallVector<Value> values = addArguments(step, Role::Buffer, arguments);
    ArrayRef<Value> next = values;
    for (Delayed &one : delayed) {
      bool hasHistory = bool(getHistoryType(one.op));
      delay(one, next.front(), hasHistory ? next[1] : Value());
      next = next.drop_front(1 + hasHistory);
    }
    addResults(step, results);
  }

private:
  struct Delayed {
    QuantizeOp op;
    std::string name;
  };

  /// Lists the `quantize` ops whose formats have a history, under unique names.
  void collect() {
    SmallVector<QuantizeOp> found;
    step.walk([&](QuantizeOp op) {
      if (op.getFormat().getHistory() > 0 && !op.getAmax())
        found.push_back(op);
    });
    if (found.empty())
      return;
    DenseMap<Value, std::string> names;
    for (NamedValue &named : nameValues(step))
      names[named.value] = std::move(named.name);
    llvm::StringMap<unsigned> uses;
    for (QuantizeOp op : found) {
      std::string name = names.lookup(op.getX());
      if (name.empty())
        name = describe(op.getX());
      name += " in " + llvm::to_string(op.getFormat().getFormat());
      if (unsigned before = uses[name]++)
        name += " #" + std::to_string(before + 1);
      delayed.push_back({op, name});
    }
  }

  RankedTensorType scalar() {
    return RankedTensorType::get({}, b.getF32Type());
  }
  static Attribute splat(RankedTensorType type, double value) {
    return DenseElementsAttr::get(type, static_cast<float>(value));
  }

  /// Returns the type of the buffer with the magnitudes of earlier steps; null
  /// if only the current step counts. With a half-life, one magnitude
  /// represents all earlier steps.
  RankedTensorType getHistoryType(QuantizeOp op) {
    int64_t kept = halfLife > 0 ? 1 : op.getFormat().getHistory() - 1;
    return kept > 0 ? RankedTensorType::get({kept}, b.getF32Type())
                    : RankedTensorType();
  }

  /// Sets the scale of `one` from `amax` and computes the amax for the next
  /// step. `history` is null if only the current step counts.
  void delay(const Delayed &one, Value amax, Value history) {
    QuantizeOp op = one.op;
    op.getAmaxMutable().assign(amax);
    b.setLoc(op.getLoc());
    b.setInsertionPointAfter(op);
    Operation *end = op->getNextNode();
    Value measured = measure(op.getX());
    Value isCurrentFinite = isFinite(measured);
    Value zero = buildSplat(b, scalar(), 0.0);
    Value current = SelectOp::create(b, isCurrentFinite, measured, zero);
    Value largest = current;
    if (history) {
      Value earlier = ReduceMaxOp::create(b, history, ArrayRef<int64_t>{0});
      largest = MaxOp::create(b, current, halfLife ? decay(earlier) : earlier);
    }
    if (history && halfLife == 0)
      results.push_back({Role::Buffer, (kAmaxHistoryPrefix + one.name).str(),
                         shiftHistory(history, current)});
    // A checkpoint may contain a history with an infinity.
    Value isUsable = AndOp::create(
        b, CompareOp::create(b, largest, zero, Comparison::Greater),
        AndOp::create(b, isCurrentFinite, isFinite(largest)));
    if (halfLife > 0)
      results.push_back({Role::Buffer, (kAmaxHistoryPrefix + one.name).str(),
                         updateHistory(history, isCurrentFinite, largest)});
    results.push_back({Role::Buffer, (kAmaxPrefix + one.name).str(),
                       SelectOp::create(b, isUsable, largest, amax)});
    for (Operation *added = op->getNextNode(); added != end;
         added = added->getNextNode())
      if (!added->hasTrait<OpTrait::ConstantLike>())
        setPhase(added, getPhase(op));
  }

  /// Whether the kernel that computes `x` may iterate over rows: `x` is the
  /// result of elementwise ops on a row reduction.
  static bool isComputedByRows(Value x) {
    llvm::SetVector<Value> pending;
    pending.insert(x);
    for (unsigned next = 0; next < pending.size(); ++next) {
      auto producer = pending[next].getDefiningOp<KernelOpInterface>();
      if (!producer)
        continue;
      if (producer.getSchedule() == Schedule::RowReduction)
        return true;
      if (producer.getSchedule() == Schedule::Elementwise)
        for (Value operand : producer->getOperands())
          if (getNumElements(operand) == getNumElements(x))
            pending.insert(operand);
    }
    return false;
  }

  /// Returns the largest magnitude of `x`, or NaN if `x` has one. If the kernel
  /// that computes `x` iterates over rows, each row is reduced first, so that
  /// this kernel can do it.
  Value measure(Value x) {
    x = findBase(x);
    Value magnitude = AbsOp::create(b, buildCast(b, x, b.getF32Type()));
    int64_t rank = getTensor(x).getRank();
    if (isComputedByRows(x))
      magnitude = ReduceMaxOp::create(b, magnitude, ArrayRef<int64_t>{--rank});
    if (rank > 0)
      magnitude = ReduceMaxOp::create(
          b, magnitude, llvm::to_vector(llvm::seq<int64_t>(0, rank)));
    return magnitude;
  }

  /// Returns whether `magnitude` is neither NaN nor infinite.
  Value isFinite(Value magnitude) {
    Value limit = buildSplat(b, scalar(), std::numeric_limits<float>::max());
    return CompareOp::create(b, magnitude, limit, Comparison::LessEqual);
  }

  /// Returns `magnitude` as it counts one step later.
  Value decay(Value magnitude) {
    double factor = std::exp2(-1.0 / static_cast<double>(halfLife));
    return MulOp::create(b, magnitude, buildSplat(b, scalar(), factor));
  }

  /// Returns the history of one magnitude: `largest`, unless the magnitude of
  /// the current step is not finite.
  Value updateHistory(Value history, Value isCurrentFinite, Value largest) {
    Value before = buildReshape(b, history, {});
    return buildReshape(
        b, SelectOp::create(b, isCurrentFinite, largest, before), {1});
  }

  /// Returns `history` without its first step and with `current` appended.
  Value shiftHistory(Value history, Value current) {
    auto type = cast<RankedTensorType>(history.getType());
    Value last = buildReshape(b, current, {1});
    int64_t kept = type.getDimSize(0) - 1;
    if (kept == 0)
      return last;
    Value rest = SliceOp::create(b, type.clone({kept}), history,
                                 ArrayRef<int64_t>{1}, ArrayRef<int64_t>{1});
    return ConcatOp::create(b, type, ValueRange{rest, last}, 0);
  }

  func::FuncOp step;
  int64_t halfLife;
  ImplicitLocOpBuilder b;
  SmallVector<Delayed> delayed;
  SmallVector<NewResult> results;
};

struct UseDelayedScalingPass
    : impl::UseDelayedScalingPassBase<UseDelayedScalingPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto halfLife = module->getAttrOfType<IntegerAttr>(kAmaxHalfLifeAttr);
    if (auto step = module.lookupSymbol<func::FuncOp>(kStepName))
      ScaleDelayer(step, halfLife ? halfLife.getInt() : 0).run();
  }
};
} // namespace
} // namespace mlir::binade
