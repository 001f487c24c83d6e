//===- AtomicDirectory.cpp - Atomic creation of directories ---------------===//

#include "binade/Container/AtomicDirectory.h"
#include "Atomic.h"
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sys/stat.h>

namespace binade {

Result<AtomicDirectory> AtomicDirectory::create(const std::string &path) {
  // A killed process with the same id may have left its temporary directory.
  for (int attempt = 0;; ++attempt) {
    std::string temporary = temporaryName(path);
    if (::mkdir(temporary.c_str(), 0777) == 0)
      return AtomicDirectory(path, std::move(temporary));
    if (errno != EEXIST || attempt == 1000)
      return writeError(path, "cannot create", errno);
  }
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;
  if (!temporary.empty())
    std::filesystem::remove_all(temporary, ignored);
}

Result<void> AtomicDirectory::commit() {
  // rename replaces only empty directories.
  std::string older = temporaryName(path);
  bool replaces = ::rename(path.c_str(), older.c_str()) == 0;
  if (!replaces && errno != ENOENT)
    return writeError(path, "cannot rename the existing directory", errno);
  bool isRenamed = false;
  Result<void> done = commitName(temporary, path, isRenamed);
  if (isRenamed)
    temporary.clear();
  if (!replaces)
    return done;
  if (!isRenamed) {
    // Restore the old directory; an error of this cannot be handled.
    (void)::rename(older.c_str(), path.c_str());
    return done;
  }
  std::error_code ignored;
  std::filesystem::remove_all(older, ignored);
  return done;
}

Result<void> removeDirectory(const std::string &path) {
  std::string temporary = temporaryName(path);
  if (::rename(path.c_str(), temporary.c_str()) != 0)
    return writeError(path, "cannot remove", errno);
  std::error_code failure;
  std::filesystem::remove_all(temporary, failure);
  if (failure)
    return writeError(temporary, "cannot remove", failure.value());
  return {};
}

Result<void> makeDirectory(const std::string &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    return {};
  Result<AtomicDirectory> made = AtomicDirectory::create(path);
  return made ? made->commit() : made.takeError();
}

bool isTemporaryName(std::string_view name) {
  return name.find(".tmp-") != name.npos;
}

} // namespace binade
