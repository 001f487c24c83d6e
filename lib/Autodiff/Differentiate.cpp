//===- Differentiate.cpp - Reverse-mode differentiation -------------------===//
//
// A forward traversal finds the values that depend on parameters, a backward
// traversal emits adjoints.
//
//===----------------------------------------------------------------------===//

#include "binade/Autodiff/Differentiate.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Build.h"
#include "binade/IR/Subgradient.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Sets the phase of every op that is inserted while it listens.
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
      one = buildCast(b, one, getElementTypeOrSelf(seed.getType()));
      accumulate(seed, buildReshape(b, one, getShape(seed)));
    }
    for (Operation *op : llvm::reverse(forward))
      if (failed(differentiate(op)))
        return failure();
    addGradients(findReached(forward));
    eraseDead(forward.size());
    for (Operation *op : forward)
      if (op->hasAttr(kDetachedAttr)) {
        op->replaceAllUsesWith(op->getOperands());
        op->erase();
      }
    return success();
  }

private:
  static ArrayRef<int64_t> getShape(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }

  /// Finds the values that depend on a parameter.
  void findActive(ArrayRef<Operation *> forward) {
    for (const Port &port : getArguments(function, Role::Parameter))
      active.insert(function.getArgument(port.index));
    for (Operation *op : forward)
      if (!op->hasAttr(kDetachedAttr) &&
          llvm::any_of(op->getOperands(),
                       [&](Value x) { return active.contains(x); }))
        active.insert_range(op->getResults());
  }

  void accumulate(Value value, Value gradient) {
    Value &sum = cotangents[value];
    sum = sum ? AddOp::create(b, sum, gradient).getResult() : gradient;
  }

  /// Emits an error for an op without derivative, unless no floating-point
  /// operand depends on parameters.
  LogicalResult refuse(Operation *op) {
    auto isActive = [&](Value x) {
      return active.contains(x) &&
             isa<FloatType>(getElementTypeOrSelf(x.getType()));
    };
    if (llvm::none_of(op->getOperands(), isActive))
      return success();
    InFlightDiagnostic error =
        op->emitError("the loss depends on parameters through '")
        << op->getName() << "', which has no derivative";
    if (op->hasTrait<NotDifferentiable>())
      error.attachNote() << "gradients are differentiated only once: ops of "
                            "gradients, quantized elements, scales and "
                            "statistics have no derivative";
    return error;
  }

  LogicalResult differentiate(Operation *op) {
    SmallVector<Value> incoming;
    for (Value result : op->getResults())
      incoming.push_back(cotangents.lookup(result));
    bool reached = llvm::any_of(incoming, [](Value v) { return v != nullptr; });
    bool needed = llvm::any_of(op->getOperands(),
                               [&](Value x) { return active.contains(x); });
    if (!reached || !needed)
      return success();
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable || op->hasTrait<NotDifferentiable>())
      return refuse(op);
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

  /// Returns the values that influence the value of the loss other than by
  /// comparisons. Their gradient may still be zero, as that of a sign or of an
  /// index is.
  DenseSet<Value> findReached(ArrayRef<Operation *> forward) {
    DenseSet<Value> reached = {getResultValue(function, loss)};
    for (Operation *op : llvm::reverse(forward)) {
      if (op->hasAttr(kDetachedAttr) ||
          llvm::none_of(op->getResults(),
                        [&](Value x) { return reached.contains(x); }))
        continue;
      for (Value operand : op->getOperands())
        if (!getElementTypeOrSelf(operand.getType()).isInteger(1))
          reached.insert(operand);
    }
    return reached;
  }

  void addGradients(const DenseSet<Value> &reached) {
    SmallVector<NewResult> gradients;
    for (const Port &port : getArguments(function, Role::Parameter)) {
      Value parameter = function.getArgument(port.index);
      Value gradient = cotangents.lookup(parameter);
      if (!gradient && !reached.contains(parameter))
        continue;
      if (!gradient) {
        emitWarning(parameter.getLoc(),
                    "the loss does not change with parameter '")
            << port.name << "'; its gradient is zero";
        b.setLoc(parameter.getLoc());
        gradient = buildSplat(b, parameter.getType(), 0.0);
      }
      gradients.push_back({Role::Gradient, port.name.str(), gradient});
    }
    addResults(function, gradients);
  }

  /// Erases gradients that are not used; adjoints emit those of all operands.
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
} // namespace

LogicalResult mlir::binade::differentiate(func::FuncOp function,
                                          unsigned loss) {
  return Differentiator(function, loss).run();
}
