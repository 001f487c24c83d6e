//===- FindSeed.h - where a loss scale enters a backward part ---*- C++ -*-===//

#ifndef BINADE_LIB_RECOVERY_FINDSEED_H
#define BINADE_LIB_RECOVERY_FINDSEED_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// Values of the backward part of `function` such that every gradient is
/// multiplied by s if all of them are: each op between them and the gradients
/// is linear in what follows from them. They are computed from forward values
/// and constants alone. Nothing where there are none.
std::optional<SmallVector<Value>> findSeed(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_LIB_RECOVERY_FINDSEED_H
