//===- ErrorPropagation.h - Gradients that an error reaches -----*- C++ -*-===//

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

/// Finds where the backward pass reads saved values, and which gradients depend
/// on them. Takes time linear in the number of ops.
class ErrorPropagationAnalysis {
public:
  explicit ErrorPropagationAnalysis(Block &body);

  ErrorPropagation getReach(SaveOp save) const { return reached.lookup(save); }
  /// Returns the position of the first op that reads the saved value.
  unsigned getFirstRead(SaveOp save) const;

private:
  ErrorPropagation follow(Operation &op) const;

  DenseMap<Operation *, ErrorPropagation> reached;
  DenseMap<Operation *, unsigned> positions;
};

} // namespace mlir::binade

#endif // BINADE_LIB_PRECISION_SAVED_ERRORPROPAGATION_H
