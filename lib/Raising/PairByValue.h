//===- PairByValue.h - Assignment of gradients by value ---------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_PAIRBYVALUE_H
#define BINADE_LIB_RAISING_PAIRBYVALUE_H

#include "FindUpdates.h"

namespace mlir::binade {

/// The arguments to which results that may be gradients belong.
struct Pairs {
  enum { Unknown, Gradients, Others } kind;
  /// For each result, the index of the argument whose gradient it is; nothing
  /// for results that are 0 up to rounding.
  SmallVector<std::optional<unsigned>> places;
};

/// Finds whether `results` of `function` are gradients of `arguments`. Derives
/// the gradients of the loss, evaluates them and the results by the reference
/// at a random point, and compares. The kind is Unknown if this fails.
Pairs pairByValue(func::FuncOp function, unsigned loss,
                  ArrayRef<unsigned> results,
                  ArrayRef<BlockArgument> arguments);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_PAIRBYVALUE_H
