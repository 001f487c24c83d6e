//===- PairByValue.h - whose gradient is whose, by numbers ------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_PAIRBYVALUE_H
#define BINADE_LIB_RAISING_PAIRBYVALUE_H

#include "FindUpdates.h"

namespace mlir::binade {

/// What was found out of results that may be gradients.
struct Pairs {
  enum { Unknown, Gradients, Others } kind;
  /// For each result which argument it is the gradient of; nothing for those
  /// that are 0 but for roundings.
  SmallVector<std::optional<unsigned>> places;
};

/// Whether `results` of `function` are gradients of some of `arguments`: the
/// loss is differentiated, and everything evaluated by the reference, at a
/// point drawn at random. Unknown where that fails.
Pairs pairByValue(func::FuncOp function, unsigned loss,
                  ArrayRef<unsigned> results,
                  ArrayRef<BlockArgument> arguments);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_PAIRBYVALUE_H
