//===- OpenBeneath.cpp - Opening of files below a directory ---------------===//
// Checks of the path's text are not sufficient, because links may be swapped
// between check and use. So the kernel resolves the path, and the checks use
// the opened descriptor.
//===----------------------------------------------------------------------===//

#include "binade/Container/ExternalFile.h"
#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace binade {

// O_NONBLOCK, so that opening a FIFO does not wait for a writer; it has no
// effect on regular files.
static constexpr int openFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

/// Returns why the text of `location` is rejected; empty if it is accepted.
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

/// Opens a path with openat2 (Linux 5.6), which resolves it in the kernel.
/// Returns no descriptor and sets errno on failure.
static Descriptor openByKernel(int directory, const std::string &location) {
  open_how how = {};
  how.flags = openFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  // EAGAIN: a component was renamed while the kernel resolved the path.
  for (int attempt = 0;; ++attempt) {
    long number =
        ::syscall(SYS_openat2, directory, location.c_str(), &how, sizeof(how));
    if (number >= 0)
      return Descriptor(static_cast<int>(number));
    if ((errno != EAGAIN && errno != EINTR) || attempt == 31)
      return Descriptor();
  }
}

/// Opens one component after the other. Fails with ELOOP if one is a symbolic
/// link.
static Descriptor openByWalk(int directory, const std::string &location) {
  Descriptor parent;
  for (std::size_t start = 0;;) {
    std::size_t slash = location.find('/', start);
    bool isLast = slash == location.npos;
    std::string name = location.substr(start, slash - start);
    start = slash + 1;
    if (name.empty() || name == ".")
      continue; // Never the last one, which refuseLocation has checked.
    int flags = isLast ? openFlags | O_NOFOLLOW
                       : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int at = parent ? parent.get() : directory;
    Descriptor next(::openat(at, name.c_str(), flags));
    if (!next && errno == ENOTDIR) {
      // O_DIRECTORY also gives ENOTDIR for a link.
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

/// Checks the opened file by its descriptor.
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
        .withNote("external files have to be below the directory of the "
                  "file that names them");

  Descriptor start(::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!start)
    return systemError(printable(base), "cannot open the directory", errno);
  std::string name(location);
  Descriptor file;
  if (!options.walk)
    file = openByKernel(start.get(), name);
  // Old kernels do not have openat2, and some sandboxes forbid it.
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
