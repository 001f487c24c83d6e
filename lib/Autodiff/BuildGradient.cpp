//===- BuildGradient.cpp - Reverse-mode differentiation of a graph --------===//
// One forward walk finds what depends on parameters, one backward walk emits
// adjoints, one pass over their operands inserts `save`.
//===----------------------------------------------------------------------===//

#include "binade/Autodiff/Passes.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Exported.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::binade {
#define GEN_PASS_DEF_BUILDGRADIENTPASS
#include "binade/Autodiff/Passes.h.inc"

namespace {
/// Puts a `save` between each forward value and what reads it in the backward
/// part.
void saveForwardValues(func::FuncOp function) {
  llvm::MapVector<Value, SmallVector<OpOperand *>> crossing;
  for (Operation &op : function.front().without_terminator())
    if (getPhase(&op) == Phase::Backward)
      for (OpOperand &operand : op.getOpOperands())
        if (Operation *producer = operand.get().getDefiningOp();
            producer && getPhase(producer) == Phase::Forward &&
            !producer->hasTrait<OpTrait::ConstantLike>())
          crossing[operand.get()].push_back(&operand);
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  for (auto &[value, operands] : crossing) {
    b.setInsertionPointAfterValue(value);
    b.setLoc(value.getLoc());
    Value saved = SaveOp::create(b, value);
    for (OpOperand *operand : operands)
      operand->set(saved);
  }
}

/// Marks every op that is inserted while it listens as part of a phase.
struct PhaseMarker : OpBuilder::Listener {
  explicit PhaseMarker(Phase phase) : phase(phase) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    if (!op->hasTrait<OpTrait::ConstantLike>())
      setPhase(op, phase);
  }
  Phase phase;
};

class Differentiator {
public:
  Differentiator(func::FuncOp function, unsigned loss)
      : function(function), body(function.front()), loss(loss),
        marker(Phase::Backward), b(function.getLoc(), function.getContext()) {
    b.setListener(&marker);
    b.setInsertionPoint(body.getTerminator());
  }

  LogicalResult run() {
    SmallVector<Operation *> forward =
        llvm::to_vector(llvm::make_pointer_range(body.without_terminator()));
    findActive(forward);

    Value seed = getResultValue(function, loss);
    if (active.contains(seed)) {
      b.setLoc(seed.getLoc());
      Value one = GradientSeedOp::create(
          b, RankedTensorType::get({}, b.getF32Type()), Value());
      accumulate(seed, buildReshape(b, one, getShape(seed)));
    }
    for (Operation *op : llvm::reverse(forward))
      if (failed(differentiate(op)))
        return failure();
    addGradients();
    eraseDead(forward.size());
    return success();
  }

private:
  static ArrayRef<int64_t> getShape(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }

  /// Values that depend on a parameter.
  void findActive(ArrayRef<Operation *> forward) {
    for (const Port &port : getArguments(function, Role::Parameter))
      active.insert(function.getArgument(port.index));
    for (Operation *op : forward)
      if (llvm::any_of(op->getOperands(),
                       [&](Value x) { return active.contains(x); }))
        active.insert_range(op->getResults());
  }

  void accumulate(Value value, Value gradient) {
    Value &sum = cotangents[value];
    sum = sum ? AddOp::create(b, sum, gradient).getResult() : gradient;
  }

  LogicalResult differentiate(Operation *op) {
    SmallVector<Value> incoming;
    for (Value result : op->getResults())
      incoming.push_back(cotangents.lookup(result));
    bool reached = llvm::any_of(incoming, [](Value v) { return v != nullptr; });
    bool needed = llvm::any_of(op->getOperands(),
                               [&](Value x) { return active.contains(x); });
    if (!reached || !needed || op->hasTrait<NotDifferentiable>())
      return success();
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitError("the loss depends on parameters through '")
             << op->getName() << "', which has no derivative";
    for (auto [index, cotangent] : llvm::enumerate(incoming))
      if (index > 0 && cotangent)
        return op->emitError("the loss depends on parameters through result ")
               << index << " of '" << op->getName()
               << "', which has no derivative";
    b.setLoc(op->getLoc());
    SmallVector<Value> outgoing = differentiable.buildAdjoint(b, incoming);
    for (auto [operand, gradient] :
         llvm::zip_equal(op->getOperands(), outgoing))
      if (gradient && active.contains(operand))
        accumulate(operand, gradient);
    return success();
  }

  void addGradients() {
    SmallVector<NewResult> gradients;
    for (const Port &port : getArguments(function, Role::Parameter)) {
      Value parameter = function.getArgument(port.index);
      Value gradient = cotangents.lookup(parameter);
      if (!gradient) {
        emitWarning(parameter.getLoc(),
                    "the loss does not depend on parameter '")
            << port.name << "'; its gradient is zero";
        b.setLoc(parameter.getLoc());
        gradient = buildSplat(b, parameter.getType(), 0.0);
      }
      gradients.push_back({Role::Gradient, port.name.str(), gradient});
    }
    addResults(function, gradients);
  }

  /// Adjoints emit gradients of all operands; nobody asked for some.
  void eraseDead(size_t forwardOps) {
    SmallVector<Operation *> emitted = llvm::to_vector(llvm::make_pointer_range(
        llvm::drop_begin(body.without_terminator(), forwardOps)));
    for (Operation *op : llvm::reverse(emitted))
      if (isOpTriviallyDead(op))
        op->erase();
  }

  func::FuncOp function;
  Block &body;
  unsigned loss;
  PhaseMarker marker;
  ImplicitLocOpBuilder b;
  DenseSet<Value> active;
  DenseMap<Value, Value> cotangents;
};

struct BuildGradientPass : impl::BuildGradientPassBase<BuildGradientPass> {
  void runOnOperation() override {
    // A graph that came with its gradients.
    if (auto gradient =
            getOperation().lookupSymbol<func::FuncOp>(kGradientName))
      return saveForwardValues(gradient);
    auto function = getOperation().lookupSymbol<func::FuncOp>(kForwardName);
    if (!function) {
      getOperation().emitError(
          "expected a function '@forward' to differentiate");
      return signalPassFailure();
    }
    std::optional<Port> loss = findResult(function, Role::Metric, "loss");
    if (!loss) {
      function.emitError(
          "has no loss: expected a result of role metric and name "
          "'loss'; name an output (--loss-output) or add a loss (--loss) at "
          "import");
      return signalPassFailure();
    }
    auto type = cast<RankedTensorType>(function.getResultTypes()[loss->index]);
    if (type.getNumElements() != 1) {
      function.emitError("loss has type ") << type << ", expected one element";
      return signalPassFailure();
    }
    if (failed(Differentiator(function, loss->index).run()))
      return signalPassFailure();
    saveForwardValues(function);
    function.setName(kGradientName);
  }
};
} // namespace
} // namespace mlir::binade
