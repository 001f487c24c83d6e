//===- Release.h - Updates in the backward pass -----------------*- C++ -*-===//

#ifndef BINADE_IR_RELEASE_H
#define BINADE_IR_RELEASE_H

#include "llvm/ADT/StringRef.h"

namespace mlir::binade {

/// An integer attribute on updates that are executed in the backward pass:
/// equal for those that share a launch.
inline constexpr llvm::StringLiteral kReleaseAttr = "binade.release";

} // namespace mlir::binade

#endif // BINADE_IR_RELEASE_H
