//===- AtomicDirectory.cpp - Write a directory completely or not ----------===//

#include "binade/Container/AtomicDirectory.h"
#include "Atomic.h"
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sys/stat.h>

namespace binade {

Result<AtomicDirectory> AtomicDirectory::create(const std::string &path) {
  // A process of the same number that was killed may have left its temporary.
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
  // Only an empty directory could be replaced by renaming.
  std::string older = temporaryName(path);
  bool replaces = ::rename(path.c_str(), older.c_str()) == 0;
  if (!replaces && errno != ENOENT)
    return writeError(path, "cannot move what is there aside", errno);
  bool isRenamed = false;
  Result<void> done = commitName(temporary, path, isRenamed);
  if (isRenamed)
    temporary.clear();
  if (!replaces)
    return done;
  if (!isRenamed) {
    // As it was before; if this fails, too, nothing more can be done.
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
