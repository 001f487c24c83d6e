//===- OpRoles.h - what ops are to the model --------------------*- C++ -*-===//

#ifndef BINADE_PRECISION_OPROLES_H
#define BINADE_PRECISION_OPROLES_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// The roles of a training step's tensors, and with them of the ops that read
/// or make these. What is moved or cast keeps its roles.
///
/// A parameter is what its readers say (the table of an embedding, part of a
/// norm), else a weight from two axes on and a bias below. Its gradient has the
/// same roles, and that of a gradient. Tensors without a role are activations.
class OpRoles {
public:
  explicit OpRoles(func::FuncOp step);

  /// Whether `op` reads or makes a tensor of `role`.
  bool has(Operation *op, TensorRole role) const;

  /// Whether `op` reads the weight that the forward part reads first or last,
  /// or makes its gradient.
  bool isAt(Operation *op, LayerPosition position) const;

  /// The gradient of each parameter that has one, and the parameter, in the
  /// order of the step.
  using Gradient = std::pair<Value, Value>;
  ArrayRef<Gradient> getGradients() const { return gradients.getArrayRef(); }

private:
  /// A bit for each TensorRole.
  using Set = uint8_t;
  struct Tensor {
    Set roles = 0;
    /// The weight that this is, or is the gradient of.
    Value weight;
  };

  void addParameters(func::FuncOp step);
  void addGradients(func::FuncOp step);
  void addGradient(Value gradient, Value parameter);
  void addStates(func::FuncOp step);
  void addLogits(func::FuncOp step);
  Tensor getOperand(OpOperand &operand) const;

  DenseMap<Value, Tensor> tensors;
  /// All roles in which each parameter is read.
  DenseMap<Value, Set> uses;
  Value firstWeight, lastWeight;
  llvm::SetVector<Gradient> gradients;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_OPROLES_H
