//===- UnexpectedWrites.h - Writes outside of the results -------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_UNEXPECTEDWRITES_H
#define BINADE_LIB_VERIFICATION_UNEXPECTEDWRITES_H

#include "ReferenceBounds.h"

namespace mlir::binade {

/// An access that covers a buffer that changed unexpectedly, and its first
/// difference.
using UnexpectedWrite = std::pair<RecordAccess, Difference>;

/// Compares the arena before and after a record, except for its results and
/// workspaces, and returns the first change.
std::optional<UnexpectedWrite>
findUnexpectedWrite(const ::binade::Plan &plan, const Execution &execution,
                    std::span<const std::byte> before,
                    std::span<const std::byte> after);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_UNEXPECTEDWRITES_H
