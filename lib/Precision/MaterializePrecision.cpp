//===- MaterializePrecision.cpp - Decisions to types and casts -----------===//

#include "ClampResults.h"
#include "ScaleLayers.h"
#include "ScaleLoss.h"
#include "StoreParameters.h"
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

  LogicalResult run() {
    DenseMap<Value, Type> stored;
    auto store = [&](Value argument, FloatType format) {
      stored[argument] = getElementTypeOrSelf(argument);
      setFormat(argument, format);
    };
    if (failed(storeParameters(function, store)))
      return failure();
    SmallVector<Operation *> ops = llvm::to_vector(
        llvm::make_pointer_range(function.front().getOperations()));
    // An op without a decision reads what it did before.
    std::vector<Type> before;
    for (Operation *op : ops)
      if (!isDecided(op))
        for (Value operand : op->getOperands()) {
          Type format = stored.lookup(operand);
          before.push_back(format ? format : getElementTypeOrSelf(operand));
        }
    ArrayRef<Type> kept = before;
    for (Operation *op : ops)
      if (isDecided(op)) {
        apply(mlir::cast<PrecisionOpInterface>(op));
      } else {
        keep(op, kept.take_front(op->getNumOperands()));
        kept = kept.drop_front(op->getNumOperands());
      }
    return success();
  }

private:
  static bool isDecided(Operation *op) {
    auto decided = dyn_cast<PrecisionOpInterface>(op);
    return decided && decided.getPrecisionAttr();
  }

  void apply(PrecisionOpInterface op) {
    PrecisionAttr decision = op.getPrecisionAttr();
    if (auto save = dyn_cast<SaveOp>(op.getOperation());
        save && decision.getOperand(0))
      return waitQuantized(save, decision.getOperand(0));
    for (OpOperand &operand : op->getOpOperands()) {
      FormatRole role = op.getOperandFormat(operand.getOperandNumber());
      QuantizedAttr format = decision.getOperand(operand.getOperandNumber());
      if (format && role == FormatRole::Chosen)
        readQuantized(operand, format);
      else if (role != FormatRole::Fixed)
        read(operand, role == FormatRole::Chosen ? Type(decision.getCompute())
                                                 : b.getF32Type());
    }
    for (OpResult result : op->getResults()) {
      FormatRole role = op.getResultFormat(result.getResultNumber());
      if (role == FormatRole::Chosen)
        setFormat(result, decision.getResult());
      else if (role == FormatRole::Wide)
        setFormat(result, b.getF32Type());
    }
    if (decision.getClamp())
      clamp(op);
  }

  /// What is done is decided no more.
  void clamp(PrecisionOpInterface op) {
    PrecisionAttr decision = op.getPrecisionAttr();
    for (OpResult result : op->getResults())
      if (op.getResultFormat(result.getResultNumber()) == FormatRole::Chosen)
        clampResult(result, decision.getClamp().getValue());
    op.setPrecisionAttr(PrecisionAttr::get(
        op.getContext(), decision.getCompute(), decision.getAccumulate(),
        decision.getResult(), decision.getOperands(), ClampAttr(),
        decision.getRule()));
  }

  void keep(Operation *op, ArrayRef<Type> formats) {
    auto update = dyn_cast<OptimizerUpdateOp>(op);
    for (auto [operand, format] : llvm::zip(op->getOpOperands(), formats)) {
      // Read in the format that they are kept in.
      bool isKept =
          update && (operand.get() == update.getParameter() ||
                     llvm::is_contained(update.getStates(), operand.get()));
      if (!isKept)
        read(operand, format);
    }
  }

  static void setFormat(Value value, Type format) {
    auto type = mlir::cast<RankedTensorType>(value.getType());
    if (type.getElementType() != format)
      value.setType(type.clone(format));
  }

  void read(OpOperand &operand, Type format) {
    if (getElementTypeOrSelf(operand.get()) != format)
      operand.set(cast(operand, format));
  }

  /// Has `operand` read what is left of it in `format`. It is quantized once,
  /// right behind its definition; what waits for the backward part is codes.
  void readQuantized(OpOperand &operand, QuantizedAttr format) {
    Value value = operand.get();
    if (isDone(value, format))
      return;
    // Not what waited is quantized, but what it was.
    while (Value before = getSaved(value))
      value = before;
    Operation *reader = operand.getOwner();
    bool turns = turnsFor(operand, format);
    if (turns)
      value = turn(value);
    SmallVector<Value> parts = quantize(value, format);
    if (getPhase(reader) != getPhase(parts.front().getDefiningOp()))
      for (Value &part : parts)
        part = save(part);
    auto type = mlir::cast<RankedTensorType>(value.getType());
    b.setLoc(value.getLoc());
    b.setInsertionPoint(reader);
    auto decoded =
        DequantizeOp::create(b, type.clone(b.getF32Type()), parts, format);
    setPhase(decoded, getPhase(reader));
    Value numbers = decoded;
    if (turns) {
      numbers = swapAxes(decoded);
      setPhase(numbers.getDefiningOp(), getPhase(reader));
    }
    operand.set(numbers);
  }

  /// Whether what shares a scale lies along the last axis, but products are
  /// summed over the one before: scales are those of summands.
  static bool turnsFor(OpOperand &operand, QuantizedAttr format) {
    auto op = mlir::cast<PrecisionOpInterface>(operand.getOwner());
    bool isFlat = format.getGranularity() == Granularity::PerRow ||
                  format.getGranularity() == Granularity::PerGroup ||
                  (format.getGranularity() == Granularity::PerBlock &&
                   format.getExtent()[0] != format.getExtent()[1]);
    return isFlat && op.getSummedAxis(operand.getOperandNumber()) == -2;
  }

  Value swapAxes(Value value) {
    int64_t rank = mlir::cast<RankedTensorType>(value.getType()).getRank();
    SmallVector<int64_t> swap = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    std::swap(swap[rank - 2], swap[rank - 1]);
    return TransposeOp::create(b, value, swap);
  }

  /// `value` with its last two axes swapped, right behind its definition.
  Value turn(Value value) {
    Value &known = turned[value];
    if (known)
      return known;
    b.setLoc(value.getLoc());
    b.setInsertionPointAfterValue(value);
    known = swapAxes(value);
    if (Operation *producer = value.getDefiningOp())
      setPhase(known.getDefiningOp(), getPhase(producer));
    return known;
  }

  /// Whether `value` is what is left of another in `format`.
  static bool isDone(Value value, QuantizedAttr format) {
    if (auto swap = value.getDefiningOp<TransposeOp>())
      value = swap.getX();
    auto decoded = value.getDefiningOp<DequantizeOp>();
    return decoded && decoded.getFormat() == format;
  }

  /// Has codes of what `op` saves wait in its place.
  void waitQuantized(SaveOp op, QuantizedAttr format) {
    SmallVector<Value> parts = quantize(op.getX(), format);
    for (Value &part : parts)
      part = save(part);
    auto type = mlir::cast<RankedTensorType>(op.getX().getType());
    b.setLoc(op.getLoc());
    b.setInsertionPoint(op);
    auto decoded =
        DequantizeOp::create(b, type.clone(b.getF32Type()), parts, format);
    setPhase(decoded, Phase::Backward);
    saved[decoded] = op.getX();
    op.getY().replaceAllUsesWith(decoded);
    op->erase();
  }

  /// What `value` was before it waited; null where it did not.
  Value getSaved(Value value) {
    auto save = value.getDefiningOp<SaveOp>();
    return save ? save.getX() : saved.lookup(value);
  }

  SmallVector<Value> quantize(Value value, QuantizedAttr format) {
    SmallVector<Value> &parts = quantized[{value, format}];
    if (!parts.empty())
      return parts;
    b.setLoc(value.getLoc());
    b.setInsertionPointAfterValue(value);
    auto codes = QuantizeOp::create(b, value, format, /*saturate=*/true);
    if (Operation *producer = value.getDefiningOp())
      setPhase(codes, getPhase(producer));
    return parts = codes.getParts();
  }

  Value save(Value part) {
    Value &waiting = saves[part];
    if (waiting)
      return waiting;
    b.setInsertionPointAfterValue(part);
    return waiting = SaveOp::create(b, part, PrecisionAttr());
  }

  /// `operand` in `format`: cast once, right behind the definition. What was
  /// saved waits as it is: it is cast where it is first read.
  Value cast(OpOperand &operand, Type format) {
    Value value = operand.get();
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
      if (auto elements = dyn_cast<DenseFPElementsAttr>(constant.getValue()))
        return result =
                   round(constant, elements, mlir::cast<FloatType>(format));
    result = buildRounded(b, value, mlir::cast<FloatType>(format));
    if (producer)
      for (Operation *op = result.getDefiningOp(); op != producer;
           op = op->getOperand(0).getDefiningOp())
        setPhase(op, getPhase(waits ? operand.getOwner() : producer));
    return result;
  }

  /// `constant` in `format`. Finite elements stay finite: a mask of -1e9 shall
  /// not become one of infinities, of which rows of only masked elements are
  /// NaN.
  Value round(ConstantOp constant, DenseFPElementsAttr elements,
              FloatType format) {
    FloatType storage = getStorageFormat(format);
    const llvm::fltSemantics &kept = storage.getFloatSemantics();
    bool isChanged = elements.getElementType() != storage, overflows = false;
    auto roundOne = [&](APFloat value) {
      bool losesInfo, isFinite = value.isFinite();
      value.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
      if (isFinite && !value.isFinite()) {
        overflows = true;
        value =
            APFloat::getLargest(format.getFloatSemantics(), value.isNegative());
      }
      isChanged |= losesInfo;
      bool isExact;
      value.convert(kept, APFloat::rmNearestTiesToEven, &isExact);
      return value.bitcastToAPInt();
    };
    DenseElementsAttr rounded = elements.mapValues(storage, roundOne);
    if (overflows)
      constant.emitWarning("constant is beyond the range of ")
          << format << ", and becomes its largest finite number there";
    return isChanged ? ConstantOp::create(b, rounded.getType(), rounded)
                     : constant;
  }

  func::FuncOp function;
  ImplicitLocOpBuilder b;
  DenseMap<std::pair<Value, Type>, Value> casts;
  DenseMap<std::pair<Value, Attribute>, SmallVector<Value>> quantized;
  /// Of parts.
  DenseMap<Value, Value> saves;
  /// With their last two axes swapped.
  DenseMap<Value, Value> turned;
  /// What decoded values were before they waited.
  DenseMap<Value, Value> saved;
};

struct MaterializePrecisionPass
    : impl::MaterializePrecisionPassBase<MaterializePrecisionPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    auto policy = module->getAttrOfType<PolicyAttr>(kPolicyAttr);
    if (!step || !policy) {
      module.emitError("expected '@step' and a policy; assign precision first");
      return signalPassFailure();
    }
    FailureOr<Policy> read = readPolicy(policy);
    if (failed(read))
      return signalPassFailure();
    if (read->lossScaling && failed(scaleLoss(step, *read->lossScaling)))
      return signalPassFailure();
    if (read->lossScaling && read->lossScaling->layers)
      scaleLayers(step, *read->lossScaling->layers, read->narrow);
    if (failed(Materializer(step).run()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::binade
