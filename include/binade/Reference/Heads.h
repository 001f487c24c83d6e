//===- Heads.h - Some heads of an attention ---------------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_HEADS_H
#define BINADE_REFERENCE_HEADS_H

#include "mlir/Support/LLVM.h"

namespace mlir::binade {

/// Attribute of an attention op that has only some heads of a whole attention:
/// their numbers among all heads, from which dropout counts the scores.
constexpr StringLiteral kHeadsAttr = "binade.heads";

} // namespace mlir::binade

#endif // BINADE_REFERENCE_HEADS_H
