//===- UnexpectedWrites.h - Writes outside of operands ----------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_UNEXPECTEDWRITES_H
#define BINADE_LIB_VERIFICATION_UNEXPECTEDWRITES_H

#include "ReferenceBounds.h"

namespace mlir::binade {

/// A buffer that changed, as an access of all of it, and how.
using Stray = std::pair<RecordAccess, Difference>;

/// Compares the arena before and after a record outside of what it writes and
/// of its workspaces.
std::optional<Stray> findStray(const ::binade::Plan &plan,
                               const Execution &execution,
                               std::span<const std::byte> before,
                               std::span<const std::byte> after);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_UNEXPECTEDWRITES_H
