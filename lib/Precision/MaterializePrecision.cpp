//===- MaterializePrecision.cpp - Decisions to types, casts, scaling ------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Passes.h"
#include "binade/Precision/Policy.h"

namespace mlir::binade {
#define GEN_PASS_DEF_MATERIALIZEPRECISIONPASS
#include "binade/Precision/Passes.h.inc"

namespace {
/// Gives every value the format of the decisions around it.
class Materializer {
public:
  explicit Materializer(func::FuncOp function)
      : function(function), b(function.getLoc(), function.getContext()) {}

  void run() {
    SmallVector<Operation *> ops = llvm::to_vector(
        llvm::make_pointer_range(function.front().getOperations()));
    for (Operation *op : ops)
      if (auto decided = dyn_cast<PrecisionOpInterface>(op);
          decided && decided.getPrecisionAttr())
        apply(decided);
      else
        keepWide(op);
  }

private:
  void apply(PrecisionOpInterface op) {
    PrecisionAttr decision = op.getPrecisionAttr();
    for (OpOperand &operand : op->getOpOperands()) {
      FormatRole role = op.getOperandFormat(operand.getOperandNumber());
      if (role != FormatRole::Fixed)
        operand.set(cast(operand, role == FormatRole::Chosen
                                      ? decision.getCompute()
                                      : b.getF32Type()));
    }
    for (OpResult result : op->getResults()) {
      FormatRole role = op.getResultFormat(result.getResultNumber());
      if (role == FormatRole::Chosen)
        setFormat(result, decision.getResult());
      else if (role == FormatRole::Wide)
        setFormat(result, b.getF32Type());
    }
  }

  /// An op without a decision reads and returns what it did before.
  void keepWide(Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (Type before = original.lookup(operand.get()))
        operand.set(cast(operand, before));
  }

  void setFormat(Value value, Type format) {
    auto type = mlir::cast<RankedTensorType>(value.getType());
    if (type.getElementType() == format)
      return;
    original[value] = type.getElementType();
    value.setType(type.clone(format));
  }

  /// `operand` in `format`: cast once, right behind the definition. What was
  /// saved waits as it is: it is cast where it is first read.
  Value cast(OpOperand &operand, Type format) {
    Value value = operand.get();
    auto type = mlir::cast<RankedTensorType>(value.getType());
    if (type.getElementType() == format)
      return value;
    Value &result = casts[{value, format}];
    if (result)
      return result;
    b.setLoc(value.getLoc());
    Operation *producer = value.getDefiningOp();
    bool waits = isa_and_present<SaveOp>(producer);
    if (waits)
      b.setInsertionPoint(operand.getOwner());
    else
      b.setInsertionPointAfterValue(value);
    if (auto constant = value.getDefiningOp<ConstantOp>())
      if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
        return result = round(constant, splat.getSplatValue<APFloat>(),
                              mlir::cast<FloatType>(format));
    result = buildRounded(b, value, mlir::cast<FloatType>(format));
    if (producer)
      for (Operation *op = result.getDefiningOp(); op != producer;
           op = op->getOperand(0).getDefiningOp())
        setPhase(op, getPhase(waits ? operand.getOwner() : producer));
    return result;
  }

  /// `constant`, which is `value` everywhere, in `format`.
  Value round(ConstantOp constant, APFloat value, FloatType format) {
    APFloat rounded = value;
    bool losesInfo;
    rounded.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
    auto type = mlir::cast<RankedTensorType>(constant.getType());
    auto result = type.clone(getStorageFormat(format));
    if (type == result && !losesInfo)
      return constant;
    return buildSplat(b, result, rounded.convertToDouble());
  }

  func::FuncOp function;
  ImplicitLocOpBuilder b;
  DenseMap<Value, Type> original;
  DenseMap<std::pair<Value, Type>, Value> casts;
};

/// Adds the scale's state, starts the backward part from it and lets the
/// optimizer unscale.
void scaleLoss(func::FuncOp function, const LossScaling &scaling) {
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  auto argument = [&](StringRef name, Type element, double init) {
    auto type = RankedTensorType::get({}, element);
    Attribute value =
        isa<FloatType>(element)
            ? Attribute(FloatAttr::get(element, init))
            : IntegerAttr::get(element, static_cast<int64_t>(init));
    return addArgument(function, Role::Scaler, name, type, function.getLoc(),
                       DenseElementsAttr::get(type, value));
  };
  Value scale = argument("scale", b.getF32Type(), scaling.init);
  Value growth = argument("growth", b.getI64Type(), 0);
  function.walk([&](GradientSeedOp op) { op.getScaleMutable().assign(scale); });
  function.walk(
      [&](UnscaleFactorOp op) { op.getScaleMutable().assign(scale); });

  std::optional<Port> found = findResult(function, Role::Metric, "found_inf");
  b.setInsertionPoint(function.front().getTerminator());
  auto update = UpdateScaleOp::create(
      b, scale.getType(), growth.getType(), scale, growth,
      getResultValue(function, found->index), b.getF64FloatAttr(scaling.growth),
      b.getF64FloatAttr(scaling.backoff),
      b.getI64IntegerAttr(scaling.interval));
  setPhase(update, Phase::Optimizer);
  addResult(function, Role::Scaler, "scale", update.getNewScale());
  addResult(function, Role::Scaler, "growth", update.getNewGrowthCount());
}

struct MaterializePrecisionPass
    : impl::MaterializePrecisionPassBase<MaterializePrecisionPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    auto policy = module->getAttrOfType<PolicyAttr>(kPolicyAttr);
    if (!step || !policy) {
      module.emitError("expected '@step' and a policy; assign precision first");
      return signalPassFailure();
    }
    FailureOr<Policy> read = readPolicy(policy);
    if (failed(read))
      return signalPassFailure();
    bool isScaled = !getArguments(step, Role::Scaler).empty();
    if (read->lossScaling && !isScaled) {
      if (!findResult(step, Role::Metric, "found_inf")) {
        step.emitError("loss scaling needs the metric 'found_inf'");
        return signalPassFailure();
      }
      scaleLoss(step, *read->lossScaling);
    }
    Materializer(step).run();
  }
};
} // namespace
} // namespace mlir::binade
