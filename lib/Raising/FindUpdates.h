//===- FindUpdates.h - what a whole training step replaces ------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_FINDUPDATES_H
#define BINADE_LIB_RAISING_FINDUPDATES_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// A result that takes the place of an argument after the step.
struct Replacement {
  BlockArgument argument;
  unsigned result;
};

/// The update of one parameter: new parameter and states are functions of the
/// old ones, of numbers and of one gradient, element by element.
struct Update {
  Replacement parameter;
  Value gradient;
  SmallVector<Replacement> states;
};

/// The parts of a whole training step.
struct StepParts {
  unsigned loss; ///< Which result is the loss.
  SmallVector<Update> updates;
  std::optional<Replacement> step; ///< Counts updates.
  SmallVector<Replacement> buffers;
  /// Numbers that nothing replaces and updates alone read: learning rates, of
  /// f32, and, where no step is replaced, at most one count.
  SmallVector<BlockArgument> given = {};
  /// What a given count is in the first step: 0, or 1 if 0 makes no numbers.
  int64_t first = 0;
  /// Whether gradients are known to be some by their values.
  bool isEvaluated = false;
  /// What was taken for granted.
  std::vector<std::string> warnings = {};
};

/// The parts that `function` has, in the order of its arguments; nothing where
/// it updates no parameter. A result of the role metric is the loss; where
/// there is none, the one that has the most updates is, and nothing is where
/// two have as many.
std::optional<StepParts> findStep(func::FuncOp function);

/// The arguments that results replace and result `loss` does not depend on.
SmallVector<Replacement> findBuffers(func::FuncOp function, unsigned loss);

/// Counts and learning rates.
SmallVector<Value> getNumbers(const StepParts &parts);

/// Whether `value` is computed from constants of one number and `numbers`
/// alone.
bool isKnown(Value value, ArrayRef<Value> numbers);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_FINDUPDATES_H
