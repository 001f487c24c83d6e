//===- OpRoles.h - Tensor roles of the ops of a step ------------*- C++ -*-===//

#ifndef BINADE_PRECISION_OPROLES_H
#define BINADE_PRECISION_OPROLES_H

#include "binade/IR/Binade.h"
#include "binade/Precision/CountOrShare.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// The first and the last blocks of the chain of repeated blocks.
struct BlockEnds {
  CountOrShare first, last;

  bool operator==(const BlockEnds &) const = default;
};

/// The roles of a training step's tensors, and of the ops that read or write
/// them. A tensor that is moved or cast keeps its roles.
///
/// The role of a parameter follows from its readers (table of an embedding,
/// part of a norm); otherwise it is a weight if it has two or more axes, else a
/// bias. Its gradient has the same roles and also `gradient`. Tensors without a
/// role are activations.
class OpRoles {
public:
  explicit OpRoles(func::FuncOp step);

  /// Whether `op` reads or writes a tensor with `role`.
  bool has(Operation *op, TensorRole role) const;

  /// Whether `op` reads the first or last weight of the forward pass, or writes
  /// its gradient: the weight whose reader has most ops after or before it on a
  /// path, or all such weights. The order of independent ops has no influence.
  bool isAt(Operation *op, LayerPosition position) const;

  /// Whether `op` reads a weight of one of these blocks, or writes its
  /// gradient. A block is a sequence of layers with weights that repeats, with
  /// equal ops and shapes.
  bool isIn(Operation *op, const BlockEnds &range) const;

  /// Returns the number of repeated blocks; 0 if there are none.
  unsigned countBlocks() const { return numBlocks; }

  /// A gradient and its parameter; one pair per parameter that has a gradient,
  /// in the order of the step.
  using Gradient = std::pair<Value, Value>;
  ArrayRef<Gradient> getGradients() const { return gradients.getArrayRef(); }

private:
  /// One bit per TensorRole.
  using Set = uint8_t;
  struct Tensor {
    Set roles = 0;
    /// The weight that this tensor is, or is the gradient of.
    Value weight;
  };

  void addParameters(func::FuncOp step);
  void addEnds(func::FuncOp step);
  void addBlocks(func::FuncOp step);
  void addGradients(func::FuncOp step);
  void addGradient(Value gradient, Value parameter);
  void addStates(func::FuncOp step);
  void addLogits(func::FuncOp step);
  Tensor getOperand(OpOperand &operand) const;
  bool hasWeight(Operation *op, function_ref<bool(Value)> isWanted) const;

  DenseMap<Value, Tensor> tensors;
  /// All roles in which each parameter is read.
  DenseMap<Value, Set> uses;
  llvm::SmallSetVector<Value, 4> firstWeights, lastWeights;
  /// The block of each weight in the chain of repeated blocks.
  DenseMap<Value, unsigned> blocks;
  unsigned numBlocks = 0;
  llvm::SetVector<Gradient> gradients;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_OPROLES_H
