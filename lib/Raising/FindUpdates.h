//===- FindUpdates.h - Detection of optimizer updates -----------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_FINDUPDATES_H
#define BINADE_LIB_RAISING_FINDUPDATES_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// A result that replaces an argument after the step.
struct Replacement {
  BlockArgument argument;
  unsigned result;
};

/// The update of one parameter: the new parameter and states are elementwise
/// functions of the old ones, of scalars and of one gradient.
struct Update {
  Replacement parameter;
  Value gradient;
  SmallVector<Replacement> states;
};

/// The parts of a whole training step.
struct StepParts {
  unsigned loss; ///< The index of the result that is the loss.
  SmallVector<Update> updates;
  std::optional<Replacement> step; ///< The counter of updates.
  SmallVector<Replacement> buffers;
  /// Scalar inputs that no result replaces and only updates read: f32 learning
  /// rates and, if `step` is not set, at most one step count.
  SmallVector<BlockArgument> given = {};
  /// The value of a given count in the first step: 0, or 1 if the rule is not
  /// valid with 0.
  int64_t first = 0;
  /// Whether the gradients were verified by evaluation.
  bool isEvaluated = false;
  /// Warnings about assumptions that were made.
  std::vector<std::string> warnings = {};
};

/// Returns the parts of a training step, in the order of the arguments of
/// `function`; nothing if it updates no parameter. The loss is the result with
/// the role metric or, without one, the scalar for which most updates are
/// found; nothing is returned if this is ambiguous.
std::optional<StepParts> findStep(func::FuncOp function);

/// Returns the replaced arguments that result `loss` does not depend on.
SmallVector<Replacement> findBuffers(func::FuncOp function, unsigned loss);

/// Returns the step count and learning rates.
SmallVector<Value> getNumbers(const StepParts &parts);

/// Whether `value` is computed only from splat constants and `numbers`.
bool isKnown(Value value, ArrayRef<Value> numbers);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_FINDUPDATES_H
