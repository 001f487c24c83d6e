//===- AtomicFile.cpp - Atomic creation of files --------------------------===//

#include "binade/Container/AtomicFile.h"
#include "Atomic.h"
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace binade {

/// Whether a file is a device such as /dev/null or a terminal, or a pipe, which
/// cannot be replaced by another file.
static bool isStream(mode_t mode) { return S_ISCHR(mode) || S_ISFIFO(mode); }

Result<AtomicFile> AtomicFile::createForStream(const std::string &path) {
  Descriptor descriptor(::memfd_create("binade", MFD_CLOEXEC));
  if (!descriptor)
    return writeError(path, "cannot create", errno);
  return AtomicFile(std::move(descriptor), path, /*temporary=*/"");
}

/// Writes all bytes of the file `from` to the device or pipe `path`.
static Result<void> copyToStream(int from, const std::string &path) {
  Descriptor into(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!into)
    return writeError(path, "cannot open", errno);
  char buffer[1 << 16];
  for (off_t offset = 0;;) {
    ssize_t count = ::pread(from, buffer, sizeof(buffer), offset);
    if (count == 0)
      return {};
    ssize_t written =
        count < 0 ? -1
                  : ::write(into.get(), buffer, static_cast<size_t>(count));
    if (written < 0 && errno != EINTR)
      return writeError(path, "cannot write", errno);
    offset += std::max<ssize_t>(written, 0);
  }
}

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  mode_t mode = 0666; // Reduced by the umask.
  struct stat older;
  bool replaces = ::stat(path.c_str(), &older) == 0;
  if (replaces && isStream(older.st_mode))
    return createForStream(path);
  if (replaces && !S_ISREG(older.st_mode))
    return Error{printable(path),
                 "cannot write: it exists and is not a regular file",
                 ExitCode::IO};
  if (replaces)
    mode = older.st_mode & 0777;
  // A killed process with the same id may have left its temporary file.
  for (int attempt = 0;; ++attempt) {
    std::string temporary = temporaryName(path);
    Descriptor descriptor(::open(
        temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (descriptor) {
      // Restore the bits that the umask removed. If that fails, fewer
      // permissions are acceptable.
      if (replaces)
        (void)::fchmod(descriptor.get(), mode);
      return AtomicFile(std::move(descriptor), path, std::move(temporary));
    }
    if (errno != EEXIST || attempt == 1000) {
      return writeError(path, "cannot create", errno);
    }
  }
}

AtomicFile::AtomicFile(Descriptor descriptor, std::string path,
                       std::string temporary)
    : descriptor(std::move(descriptor)), path(std::move(path)),
      temporary(std::move(temporary)) {}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : descriptor(std::move(other.descriptor)), path(std::move(other.path)),
      temporary(std::exchange(other.temporary, {})) {}

AtomicFile::~AtomicFile() {
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

Error AtomicFile::failure(std::string_view what, int number) const {
  return writeError(path, what, number);
}

Result<void> AtomicFile::write(std::uint64_t offset,
                               std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::pwrite(descriptor.get(), bytes.data(), bytes.size(),
                             static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return failure("cannot write " + std::to_string(bytes.size()) +
                         " bytes at offset " + std::to_string(offset),
                     count < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<void> AtomicFile::commit() {
  if (temporary.empty())
    return copyToStream(descriptor.get(), path);
  // Do not retry a failed fsync: the kernel may have dropped the data and
  // marked the pages as clean.
  if (::fsync(descriptor.get()) != 0)
    return failure("cannot sync the file to disk", errno);
  if (::close(descriptor.release()) != 0 && errno != EINTR)
    return failure("cannot close the file", errno);
  bool isRenamed = false;
  Result<void> done = commitName(temporary, path, isRenamed);
  if (isRenamed)
    temporary.clear();
  return done;
}

Result<void> writeTextFile(const std::string &path, std::string_view text) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.takeError();
  if (Result<void> written = file->write(0, std::as_bytes(std::span(text)));
      !written)
    return written;
  return file->commit();
}

} // namespace binade
