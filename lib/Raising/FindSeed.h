//===- FindSeed.h - Detection of the gradient seed --------------*- C++ -*-===//

#ifndef BINADE_LIB_RAISING_FINDSEED_H
#define BINADE_LIB_RAISING_FINDSEED_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// The places of a backward pass that are multiplied by the gradient seed.
struct Seed {
  /// Values computed from forward values and constants only.
  SmallVector<Value> values;
  /// Uses of constants that are added to values proportional to the seed.
  SmallVector<OpOperand *> constants;
};

/// Returns the places of the backward pass of `function` such that multiplying
/// all of them by s multiplies every gradient by s. Returns nothing if there
/// are no such places.
std::optional<Seed> findSeed(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_LIB_RAISING_FINDSEED_H
