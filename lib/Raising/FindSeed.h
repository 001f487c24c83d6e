//===- FindSeed.h - where a loss scale enters a backward part ---*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_FINDSEED_H
#define BINADE_LIB_RAISING_FINDSEED_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// What of a backward part is multiplied with a loss scale.
struct Seed {
  /// Computed from forward values and constants alone.
  SmallVector<Value> values;
  /// Uses of constants, which are added to the like.
  SmallVector<OpOperand *> constants;
};

/// The values of the backward part of `function` such that every gradient is
/// multiplied by s if all of them are: each op between them and the gradients
/// is linear in what follows from them. Nothing where there are none.
std::optional<Seed> findSeed(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_FINDSEED_H
