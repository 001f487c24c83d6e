//===- Rematerialize.h - Recomputation of forward values --------*- C++ -*-===//

#ifndef BINADE_IR_REMATERIALIZE_H
#define BINADE_IR_REMATERIALIZE_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Recomputes forward values in the backward pass, from values that are
/// available there: arguments, constants and saved values.
class Rematerializer {
public:
  using Predicate = function_ref<bool(Operation *)>;

  explicit Rematerializer(Block &body);

  /// Returns the ops that recompute the value that `save` keeps, in order:
  /// views, broadcasts, and at most `most` other ops, all of which satisfy
  /// `isCheap`. Returns none if the value cannot be recomputed this way, or has
  /// no user.
  SmallVector<Operation *> find(SaveOp save, unsigned most,
                                Predicate isCheap) const;

  /// Clones `ops` before the first user of `save`, replaces the saved value by
  /// their result, and erases `save`.
  void replace(SaveOp save, ArrayRef<Operation *> ops);

  /// Makes `value` available in the backward pass, before `user`: saves it if
  /// needed.
  void keep(Value value, Operation *user);

private:
  bool isAvailable(Value value, Operation *user) const;

  /// The `save` of each forward value that keeps its format.
  DenseMap<Value, SaveOp> saves;
};

/// Builds the ops that compute `result` from the other results of its op, as
/// the decomposition of the op does: for example a normalized row from its
/// statistics. A listener of `b` must append all new ops to `built`. All
/// remaining ops satisfy `accepts`, and read what `findOperand` returns for
/// their operands. Returns null if the decomposition fails, if `accepts`
/// rejects an op, or if `findOperand` returns null.
Value computeFromOtherResults(OpResult result, ImplicitLocOpBuilder &b,
                              SmallVectorImpl<Operation *> &built,
                              function_ref<bool(Operation *)> accepts,
                              function_ref<Value(Value)> findOperand);

/// Whether `op` repeats the elements of its operand and is recomputed in each
/// kernel that reads it, as a broadcast is. Returns false for null.
bool isRecomputedBroadcast(Operation *op);

} // namespace mlir::binade

#endif // BINADE_IR_REMATERIALIZE_H
