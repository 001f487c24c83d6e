//===- OpenBeneath.cpp - Open files named by a model ----------------------===//
// Checks on path text alone have been got round again and again (a `..` in the
// middle, links swapped between check and use), so the kernel resolves the
// path and what counts is the descriptor that it gives.
//===----------------------------------------------------------------------===//

#include "binade/Container/ExternalFile.h"
#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace binade {

// O_NONBLOCK: opening a FIFO must not wait for a writer. For regular files it
// means nothing.
static constexpr int openFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

/// Why `location` may not be followed, judged by its text; empty if it may.
static std::string_view refuseLocation(std::string_view location) {
  if (location.empty())
    return "the path is empty";
  if (location.find('\0') != location.npos)
    return "the path has a NUL byte";
  if (location.front() == '/')
    return "the path is absolute; it has to be relative to the file that "
           "names it";
  if (location.find('\\') != location.npos)
    return "the path has a backslash; components are separated by '/'";
  if (location.size() > 1 && location[1] == ':' && (location[0] | 32) >= 'a' &&
      (location[0] | 32) <= 'z')
    return "the path has a drive letter";
  std::string_view component;
  for (std::size_t start = 0; start <= location.size();) {
    std::size_t end = std::min(location.find('/', start), location.size());
    component = location.substr(start, end - start);
    if (component == "..")
      return "the path has a '..' component";
    start = end + 1;
  }
  if (component.empty() || component == ".")
    return "the path names a directory";
  return {};
}

/// Lets the kernel resolve the whole path at once (Linux 5.6). No descriptor
/// and errno on failure.
static Descriptor openByKernel(int directory, const std::string &location) {
  open_how how = {};
  how.flags = openFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  // EAGAIN: something was renamed meanwhile and the kernel could not be sure.
  for (int attempt = 0;; ++attempt) {
    long number =
        ::syscall(SYS_openat2, directory, location.c_str(), &how, sizeof(how));
    if (number >= 0)
      return Descriptor(static_cast<int>(number));
    if ((errno != EAGAIN && errno != EINTR) || attempt == 31)
      return Descriptor();
  }
}

/// Opens one component after the other, none of which may be a link (ELOOP).
static Descriptor openByWalk(int directory, const std::string &location) {
  Descriptor parent;
  for (std::size_t start = 0;;) {
    std::size_t slash = location.find('/', start);
    bool isLast = slash == location.npos;
    std::string name = location.substr(start, slash - start);
    start = slash + 1;
    if (name.empty() || name == ".")
      continue; // Not the last one, as refuseLocation has seen.
    int flags = isLast ? openFlags | O_NOFOLLOW
                       : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int at = parent ? parent.get() : directory;
    Descriptor next(::openat(at, name.c_str(), flags));
    if (!next && errno == ENOTDIR) {
      // A link where a directory is asked for gives ENOTDIR, too.
      struct stat info;
      bool isLink =
          ::fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISLNK(info.st_mode);
      errno = isLink ? ELOOP : ENOTDIR;
    }
    if (!next || isLast)
      return next;
    parent = std::move(next);
  }
}

static std::string_view kindOf(mode_t mode) {
  if (S_ISDIR(mode))
    return "a directory";
  if (S_ISFIFO(mode))
    return "a FIFO";
  if (S_ISSOCK(mode))
    return "a socket";
  return "a device";
}

/// Checks what was opened, not what the path meant a moment ago.
static Result<ExternalFile> adopt(Descriptor descriptor, std::string path,
                                  bool allowHardLinks) {
  struct stat info;
  if (::fstat(descriptor.get(), &info) != 0)
    return systemError(std::move(path), "cannot examine the file", errno);
  if (!S_ISREG(info.st_mode))
    return Error{std::move(path), "expected a regular file, found " +
                                      std::string(kindOf(info.st_mode))};
  if (info.st_nlink > 1 && !allowHardLinks)
    return Error{std::move(path),
                 "the file has " + std::to_string(info.st_nlink) +
                     " names (hard links), so it may lie outside of the "
                     "directory as well"}
        .withNote("--allow-links accepts such files");
  return ExternalFile(std::move(descriptor),
                      static_cast<std::uint64_t>(info.st_size),
                      std::move(path));
}

static Error openError(std::string path, int number) {
  switch (number) {
  case ELOOP:
    return Error{std::move(path), "cannot open: a component of the path is a "
                                  "symbolic link"};
  case EXDEV:
    return Error{std::move(path), "cannot open: the path leaves its directory"};
  case ENXIO:
    return Error{std::move(path),
                 "expected a regular file, found a socket or a device"};
  default:
    return systemError(std::move(path), "cannot open", number);
  }
}

Result<ExternalFile> openBeneath(const std::string &directory,
                                 std::string_view location,
                                 OpenOptions options) {
  std::string base = directory.empty() ? "." : directory;
  std::string path = printable(location);
  if (!directory.empty())
    path = printable(directory) + (directory.ends_with('/') ? "" : "/") + path;
  if (std::string_view reason = refuseLocation(location); !reason.empty())
    return Error{printable(directory.empty() ? "." : directory),
                 "cannot open " + quote(location) + ": " + std::string(reason)}
        .withNote("external files have to lie beneath the directory of the "
                  "file that names them");

  Descriptor start(::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!start)
    return systemError(printable(base), "cannot open the directory", errno);
  std::string name(location);
  Descriptor file;
  if (!options.walk)
    file = openByKernel(start.get(), name);
  // Old kernels do not know the call and some sandboxes forbid it.
  if (options.walk || (!file && (errno == ENOSYS || errno == EPERM)))
    file = openByWalk(start.get(), name);
  if (!file)
    return openError(std::move(path), errno);
  return adopt(std::move(file), std::move(path), options.allowHardLinks);
}

Result<ExternalFile> openFile(const std::string &path) {
  Descriptor file(::open(path.c_str(), openFlags));
  if (!file)
    return systemError(printable(path), "cannot open", errno);
  return adopt(std::move(file), printable(path), /*allowHardLinks=*/true);
}

} // namespace binade
