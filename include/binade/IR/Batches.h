//===- Batches.h - Kernels for several sets of operands ---------*- C++ -*-===//

#ifndef BINADE_IR_BATCHES_H
#define BINADE_IR_BATCHES_H

#include "llvm/ADT/StringRef.h"

namespace mlir::binade {

/// A unit attribute on a kernel: a launch may name it several times, once for
/// each set of operands. Unlike a multi-tensor kernel it is written for tensors
/// of one shape. On a GPU a table tells each block of threads its operands and
/// work items.
inline constexpr llvm::StringLiteral kBatchedAttr = "binade.batched";

} // namespace mlir::binade

#endif // BINADE_IR_BATCHES_H
