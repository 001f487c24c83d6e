//===- AppendFile.cpp - A file that grows with a run ----------------------===//

#include "AppendFile.h"
#include <cerrno>
#include <fcntl.h>

using namespace binade;

Result<AppendFile> AppendFile::open(const std::string &path) {
  Descriptor descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor)
    return systemError(printable(path), "cannot open", errno);
  return AppendFile(std::move(descriptor), path);
}

Result<void> AppendFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(printable(path), "cannot write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> AppendFile::cut(std::size_t size) {
  // Pipes and devices have no end.
  if (::ftruncate(descriptor.get(), static_cast<off_t>(size)) != 0 &&
      errno != EINVAL)
    return systemError(printable(path), "cannot cut off its end", errno);
  return {};
}

Result<void> AppendFile::sync() {
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL)
    return systemError(printable(path), "cannot bring the file to disk", errno);
  return {};
}
