//===- MaterializePrecision.cpp - Decisions to types and casts ------------===//

#include "ClampResults.h"
#include "QuantizeValues.h"
#include "ScaleLayers.h"
#include "ScaleLoss.h"
#include "ScaleOperands.h"
#include "StoreParameters.h"
#include "binade/IR/Accumulation.h"
#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/MissingFunction.h"
#include "binade/IR/StoredNumbers.h"
#include "binade/Precision/Biases.h"
#include "binade/Precision/Passes.h"
#include "binade/Precision/Policy.h"

namespace mlir::binade {
#define GEN_PASS_DEF_MATERIALIZEPRECISIONPASS
#include "binade/Precision/Passes.h.inc"

namespace {
/// Gives each value the format that the decisions ask for, and inserts casts.
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
    // An op without a decision reads its operands in the same formats as
    // before.
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
    LogicalResult done = accumulate();
    quantizer.finish();
    return done;
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
      return quantizer.save(save, decision.getOperand(0));
    int64_t exponent = 0; // Of the product of the operands.
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      FormatRole role = op.getOperandFormat(number);
      if (auto scaled = getScaledOperand(decision, number)) {
        exponent += scaled->exponent;
        scaler.read(operand, *scaled, decision.getCompute());
        continue;
      }
      QuantizedAttr format = decision.getOperand(number);
      if (format && role == FormatRole::Chosen)
        quantizer.read(operand, format, decision.getTransform());
      else if (role != FormatRole::Fixed)
        read(operand, role == FormatRole::Chosen
                          ? decision.getCompute()
                          : getWideFormat(decision, number));
    }
    for (OpResult result : op->getResults()) {
      FormatRole role = op.getResultFormat(result.getResultNumber());
      if (role == FormatRole::Chosen)
        setFormat(result, decision.getResult());
      else if (role == FormatRole::Wide)
        setFormat(result, b.getF32Type());
    }
    if (scalesOperands(decision))
      finishScaled(op, exponent);
    if (decision.getClamp())
      clamp(op);
  }

  /// Replaces matmuls whose decision has an accumulator.
  LogicalResult accumulate() {
    SmallVector<MatmulOp> matmuls;
    function.walk([&](MatmulOp op) {
      if (PrecisionAttr decision = op.getPrecisionAttr();
          decision && decision.getAccumulation())
        matmuls.push_back(op);
    });
    for (MatmulOp op : matmuls) {
      b.setLoc(op.getLoc());
      b.setInsertionPoint(op);
      Operation *before = op->getPrevNode();
      FailureOr<Value> built =
          buildAccumulated(b, op, op.getPrecisionAttr().getAccumulation());
      if (failed(built))
        return failure();
      for (Operation *made = op->getPrevNode(); made != before;
           made = made->getPrevNode())
        setPhase(made, getPhase(op));
      op.replaceAllUsesWith(*built);
      op->erase();
    }
    return success();
  }

  /// Adds biases at the scale of the product, divides the result by it, and
  /// clears the scales from the decision.
  void finishScaled(PrecisionOpInterface op, int64_t exponent) {
    PrecisionAttr decision = op.getPrecisionAttr();
    for (OpOperand &operand : op->getOpOperands())
      if (op.getOperandFormat(operand.getOperandNumber()) == FormatRole::Wide)
        scaler.readSummand(operand, exponent);
    op.setPrecisionAttr(withoutScaledOperands(decision));
    scaler.unscale(op->getResult(0), -exponent);
  }

  /// Inserts the clamp ops, and clears the clamp from the decision.
  void clamp(PrecisionOpInterface op) {
    PrecisionAttr decision = op.getPrecisionAttr();
    for (OpResult result : op->getResults())
      if (op.getResultFormat(result.getResultNumber()) == FormatRole::Chosen)
        clampResult(result, decision.getClamp().getValue());
    op.setPrecisionAttr(PrecisionAttr::get(
        op.getContext(), decision.getCompute(), decision.getAccumulate(),
        decision.getResult(), decision.getOperands(), decision.getTransform(),
        decision.getAccumulation(), ClampAttr(), decision.getRule()));
  }

  void keep(Operation *op, ArrayRef<Type> formats) {
    auto update = dyn_cast<OptimizerUpdateOp>(op);
    for (auto [operand, format] : llvm::zip(op->getOpOperands(), formats)) {
      // An update reads parameter and states in their storage formats.
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

  /// Returns `operand` in `format`, with one cast per value and format, right
  /// after the definition. A saved value keeps its own format; its cast is
  /// placed at the first use.
  Value cast(OpOperand &operand, Type format) {
    Value value = operand.get();
    Value &result = casts[{value, format}];
    if (result)
      return result;
    b.setLoc(value.getLoc());
    Operation *producer = value.getDefiningOp();
    bool isSaved = isa_and_present<SaveOp>(producer);
    if (isSaved)
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
        setPhase(op, getPhase(isSaved ? operand.getOwner() : producer));
    return result;
  }

  /// Returns `constant` in `format`. Finite elements stay finite: if a mask of
  /// -1e9 became infinite, the softmax of a row of only masked elements would
  /// be NaN.
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
          << format << ", and becomes its largest finite value";
    warnOfSmall(constant, format);
    return isChanged ? ConstantOp::create(b, rounded.getType(), rounded)
                     : constant;
  }

  /// Warns of a constant whose elements are too small for `format`, in which a
  /// user decided to compute.
  static void warnOfSmall(ConstantOp constant, FloatType format) {
    if (auto numbers = readStored(constant, ""))
      if (std::string reason = explainUnsuitable(*numbers, format,
                                                 /*readsEach=*/false,
                                                 [](double) { return true; });
          !reason.empty())
        constant.emitWarning("constant ") << reason;
  }

  func::FuncOp function;
  ImplicitLocOpBuilder b;
  DenseMap<std::pair<Value, Type>, Value> casts;
  ValueQuantizer quantizer{function, b};
  OperandScaler scaler{b};
};

struct MaterializePrecisionPass
    : impl::MaterializePrecisionPassBase<MaterializePrecisionPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    auto policy = module->getAttrOfType<PolicyAttr>(kPolicyAttr);
    if (!step) {
      emitMissingFunction(module, kStepName, "with decisions");
      return signalPassFailure();
    }
    if (!policy) {
      emitError(module.getLoc())
          << "expected a policy ('" << kPolicyAttr
          << "' of the module); run binade-assign-pipeline first";
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
