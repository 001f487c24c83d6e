//===- Atomic.h - What atomic files and directories share -------*- C++ -*-===//

#ifndef BINADE_CONTAINER_ATOMIC_H
#define BINADE_CONTAINER_ATOMIC_H

#include "binade/Container/Error.h"

namespace binade {

/// The directory that holds `path`.
std::string directoryOf(const std::string &path);

/// `path` with an ending that no other process and no other thread uses. A
/// long name is cut, so that the ending does not make it too long.
std::string temporaryName(const std::string &path);

/// `systemError`, but never "rejected": nothing that was given is wrong. Where
/// space is lacking a note says how much there is.
Error writeError(const std::string &path, std::string_view what, int number);

/// Renames `temporary` to `path`, and brings the new name itself to disk.
/// `isRenamed` is set when the first is done.
Result<void> commitName(const std::string &temporary, const std::string &path,
                        bool &isRenamed);

} // namespace binade

#endif // BINADE_CONTAINER_ATOMIC_H
