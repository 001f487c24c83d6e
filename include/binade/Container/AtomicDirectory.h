//===- AtomicDirectory.h - Write a directory completely or not --*- C++ -*-===//

#ifndef BINADE_CONTAINER_ATOMICDIRECTORY_H
#define BINADE_CONTAINER_ATOMICDIRECTORY_H

#include "binade/Container/Error.h"

namespace binade {

/// A directory that appears under its name when all of its files are on disk.
///
/// It is made as `<path>.tmp-<pid>-<n>`; files are put there by those who bring
/// them to disk themselves (see `AtomicFile`). `commit` renames it to `path`
/// and syncs the directory above. What was at `path` is moved aside before and
/// removed after. Without a successful `commit` the temporary is removed.
/// Errors are as those of `AtomicFile`.
class AtomicDirectory {
public:
  static Result<AtomicDirectory> create(const std::string &path);

  AtomicDirectory(AtomicDirectory &&other) noexcept
      : path(std::move(other.path)),
        temporary(std::exchange(other.temporary, {})) {}
  AtomicDirectory &operator=(AtomicDirectory &&other) = delete;
  ~AtomicDirectory();

  /// Where files are put until `commit`.
  const std::string &getTemporary() const { return temporary; }

  Result<void> commit();

private:
  AtomicDirectory(std::string path, std::string temporary)
      : path(std::move(path)), temporary(std::move(temporary)) {}

  std::string path;
  std::string temporary; ///< Empty when there is nothing left to remove.
};

/// Removes a directory with what is in it. It loses its name first, so that it
/// is never seen with a part of its files.
Result<void> removeDirectory(const std::string &path);

/// Makes a directory unless it is there, and brings its name to disk.
Result<void> makeDirectory(const std::string &path);

/// True for the names that files and directories have before they are complete
/// or while they are removed.
bool isTemporaryName(std::string_view name);

} // namespace binade

#endif // BINADE_CONTAINER_ATOMICDIRECTORY_H
