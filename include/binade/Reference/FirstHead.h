//===- FirstHead.h - Some heads of an attention -----------------*- C++ -*-===//

#ifndef BINADE_REFERENCE_FIRSTHEAD_H
#define BINADE_REFERENCE_FIRSTHEAD_H

#include "mlir/Support/LLVM.h"

namespace mlir::binade {

/// Attribute of an attention op that has only some heads of a whole attention:
/// the number of the first one, from which dropout counts the scores.
constexpr StringLiteral kFirstHeadAttr = "binade.first_head";

} // namespace mlir::binade

#endif // BINADE_REFERENCE_FIRSTHEAD_H
