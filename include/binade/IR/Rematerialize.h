//===- Rematerialize.h - forward values made again --------------*- C++ -*-===//

#ifndef BINADE_IR_REMATERIALIZE_H
#define BINADE_IR_REMATERIALIZE_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// Makes values of the forward part once more in the backward part, from what
/// that has anyway: arguments, constants, and what waits for it.
class Rematerializer {
public:
  using Predicate = function_ref<bool(Operation *)>;

  explicit Rematerializer(Block &body);

  /// The ops that make again what `save` keeps, each behind those that it
  /// reads: views and copies of fewer elements, and at most `most` others, all
  /// of them `cheap`. None if there is no such way or nobody to read it.
  SmallVector<Operation *> find(SaveOp save, unsigned most,
                                Predicate isCheap) const;

  /// Puts what `ops` make, run again where it is first read, in the place of
  /// what `save` keeps.
  void replace(SaveOp save, ArrayRef<Operation *> ops);

  /// Lets the backward part have `value`, from `user` on.
  void keep(Value value, Operation *user);

private:
  bool isAvailable(Value value, Operation *user) const;

  /// For each forward value, the op that keeps it as it is.
  DenseMap<Value, SaveOp> saves;
};

/// Whether `op` has the elements of its operand, each more than once, and is
/// never read from memory. Null has none.
bool isSpread(Operation *op);

} // namespace mlir::binade

#endif // BINADE_IR_REMATERIALIZE_H
