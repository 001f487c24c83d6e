//===- Atomic.cpp - Helpers of atomic files and directories ---------------===//

#include "Atomic.h"
#include "binade/Container/Descriptor.h"
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/statvfs.h>

namespace binade {

std::string directoryOf(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

std::string temporaryName(const std::string &path) {
  static std::atomic<unsigned> count = 0;
  std::filesystem::path target(path);
  return target.parent_path() /
         (target.filename().string().substr(0, 200) + ".tmp-" +
          std::to_string(::getpid()) + "-" + std::to_string(++count));
}

Error writeError(const std::string &path, std::string_view what, int number) {
  Error error = systemError(printable(path), what, number);
  if (error.exitCode == ExitCode::Rejected)
    error.exitCode = ExitCode::IO;
  struct statvfs info;
  if ((number == ENOSPC || number == EDQUOT) &&
      ::statvfs(directoryOf(path).c_str(), &info) == 0)
    error.notes.push_back(std::to_string(info.f_bavail * info.f_frsize) +
                          " bytes are free in " + printable(directoryOf(path)));
  return error;
}

Result<void> commitName(const std::string &temporary, const std::string &path,
                        bool &isRenamed) {
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return writeError(path, "cannot rename " + quote(temporary), errno);
  isRenamed = true;

  // The new name itself has to survive a power failure.
  std::string parent = directoryOf(path);
  Descriptor directory(
      ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory)
    return writeError(path, "written, but cannot open the directory to sync it",
                      errno);
  // Some network file systems do not support this.
  if (::fsync(directory.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    return writeError(path, "written, but cannot sync the directory to disk",
                      errno);
  return {};
}

} // namespace binade
