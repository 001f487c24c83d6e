//===- ErrorPropagation.h - Which results an error reaches ------*- C++ -*-===//

#ifndef BINADE_LIB_PRECISION_SAVED_ERRORPROPAGATION_H
#define BINADE_LIB_PRECISION_SAVED_ERRORPROPAGATION_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The gradients that an error reaches: none, one or several.
struct ErrorPropagation {
  Value gradient;
  bool isSeveral = false;

  void add(const ErrorPropagation &other);
};

/// Where in the backward part values are read, and what that leads to. Linear
/// in the ops.
class ErrorPropagationAnalysis {
public:
  explicit ErrorPropagationAnalysis(Block &body);

  ErrorPropagation getReach(SaveOp save) const { return reached.lookup(save); }
  /// The position of the first op that reads what `save` keeps.
  unsigned getFirstRead(SaveOp save) const;

private:
  ErrorPropagation follow(Operation &op) const;

  DenseMap<Operation *, ErrorPropagation> reached;
  DenseMap<Operation *, unsigned> positions;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_SAVED_ERRORPROPAGATION_H
