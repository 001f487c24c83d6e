//===- FindGradients.h - a loss with its gradients --------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_FINDGRADIENTS_H
#define BINADE_LIB_RAISING_FINDGRADIENTS_H

#include "FindUpdates.h"

namespace mlir::binade {

/// The parts of `function` where every floating-point result that does not
/// belong to the forward part is the gradient of an argument: its updates have
/// a gradient and no rule. Nothing where it has no such results, or where they
/// are not gradients of as many arguments.
///
/// Binade's own gradients, evaluated with the graph's at a random point, say
/// whether they are, and whose is whose. A graph that is too large for that has
/// them in the order of its arguments of their types; a warning says so.
std::optional<StepParts> findGradients(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_FINDGRADIENTS_H
