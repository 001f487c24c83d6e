//===- FindGradients.h - Detection of a loss with gradients -----*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_FINDGRADIENTS_H
#define BINADE_LIB_RAISING_FINDGRADIENTS_H

#include "FindUpdates.h"

namespace mlir::binade {

/// Finds the parts of a function that computes gradients, but no updates: every
/// floating-point result that the forward pass does not compute is the gradient
/// of an argument. The updates in the result have a gradient and no rule.
/// Returns nothing if there are no such results, or if they are not gradients.
///
/// Evaluates the results and the gradients that Binade derives at a random
/// point, to assign each result to its argument. If the graph is too large for
/// that, assigns results to arguments of their type in order; a warning says
/// so.
std::optional<StepParts> findGradients(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_FINDGRADIENTS_H
