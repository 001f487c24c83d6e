//===- Atomic.h - Helpers of atomic files and directories -------*- C++ -*-===//

#ifndef BINADE_CONTAINER_ATOMIC_H
#define BINADE_CONTAINER_ATOMIC_H

#include "binade/Container/Error.h"

namespace binade {

/// Returns the directory that contains `path`.
std::string directoryOf(const std::string &path);

/// Returns `path` with a suffix that no other process and no other thread uses.
/// A long name is truncated, so that the suffix does not make it too long.
std::string temporaryName(const std::string &path);

/// Returns `systemError` with exit code IO instead of Rejected, because the
/// user's input is not wrong. If the disk is full, a note gives the free space.
Error writeError(const std::string &path, std::string_view what, int number);

/// Renames `temporary` to `path`, and syncs the new name to disk. Sets
/// `isRenamed` after the renaming.
Result<void> commitName(const std::string &temporary, const std::string &path,
                        bool &isRenamed);

} // namespace binade

#endif // BINADE_CONTAINER_ATOMIC_H
