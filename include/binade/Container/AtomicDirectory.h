//===- AtomicDirectory.h - Atomic creation of directories -------*- C++ -*-===//

#ifndef BINADE_CONTAINER_ATOMICDIRECTORY_H
#define BINADE_CONTAINER_ATOMICDIRECTORY_H

#include "binade/Container/Error.h"

namespace binade {

/// A directory that appears under its name only when all of its files are on
/// disk.
///
/// It is created as `<path>.tmp-<pid>-<n>`. The caller writes and syncs the
/// files in it, for example with `AtomicFile`. `commit` renames it to `path`
/// and syncs the parent directory. An existing `path` is renamed before and
/// removed after that. Without a successful `commit`, the temporary directory
/// is removed. Errors are as for `AtomicFile`.
class AtomicDirectory {
public:
  static Result<AtomicDirectory> create(const std::string &path);

  AtomicDirectory(AtomicDirectory &&other) noexcept
      : path(std::move(other.path)),
        temporary(std::exchange(other.temporary, {})) {}
  AtomicDirectory &operator=(AtomicDirectory &&other) = delete;
  ~AtomicDirectory();

  /// Returns the temporary path of the directory until `commit`.
  const std::string &getTemporary() const { return temporary; }

  Result<void> commit();

private:
  AtomicDirectory(std::string path, std::string temporary)
      : path(std::move(path)), temporary(std::move(temporary)) {}

  std::string path;
  std::string temporary; ///< Empty if there is nothing to remove.
};

/// Removes a directory and its contents. Renames it first, so that no other
/// process sees it with only some of its files.
Result<void> removeDirectory(const std::string &path);

/// Creates a directory unless it exists, and syncs its name to disk.
Result<void> makeDirectory(const std::string &path);

/// Whether `name` is a temporary name of an incomplete file or directory, or of
/// one that is being removed.
bool isTemporaryName(std::string_view name);

} // namespace binade

#endif // BINADE_CONTAINER_ATOMICDIRECTORY_H
