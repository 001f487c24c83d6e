//===- ExternalFile.h - Safe reading of external files ----------*- C++ -*-===//
// Files to which a model, data set or checkpoint refers are read only by these
// functions. The kernel resolves the path, checks use the opened descriptor,
// and bytes are copied with pread. So a file that shrinks or is replaced while
// it is read causes an error, but never a fault.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_EXTERNALFILE_H
#define BINADE_CONTAINER_EXTERNALFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Error.h"
#include <cstdint>
#include <span>

namespace binade {

struct OpenOptions {
  /// Accepts files with hard links (--allow-links), as in stores that share
  /// equal files. A hard link may refer to a file outside of the directory.
  bool allowHardLinks = false;
  /// Resolves the path component by component, even if the kernel supports
  /// openat2.
  bool walk = false;
};

/// An open regular file. Movable; the destructor closes it.
class ExternalFile {
public:
  ExternalFile(Descriptor descriptor, std::uint64_t size, std::string path)
      : descriptor(std::move(descriptor)), size(size), path(std::move(path)) {}

  int getDescriptor() const { return descriptor.get(); }
  /// Returns the size in bytes at the time of opening.
  std::uint64_t getSize() const { return size; }
  /// Returns the printable path for messages.
  const std::string &getPath() const { return path; }

private:
  Descriptor descriptor;
  std::uint64_t size;
  std::string path;
};

/// Opens `location` for reading, a relative path from an untrusted file in
/// `directory` ("" for the current directory). Rejects paths that are empty,
/// absolute, or contain a `..` component, a backslash or a drive letter;
/// symbolic links in any component; anything but regular files; and files with
/// hard links (see `OpenOptions`). `directory` itself is trusted and may be a
/// link.
Result<ExternalFile> openBeneath(const std::string &directory,
                                 std::string_view location,
                                 OpenOptions options = {});

/// Opens a file that the user named. Follows links, but rejects anything but
/// regular files.
Result<ExternalFile> openFile(const std::string &path);

/// Checks that bytes [offset, offset + length) exist, before memory for them
/// is allocated.
Result<void> checkRange(const ExternalFile &file, std::uint64_t offset,
                        std::uint64_t length);

/// Copies bytes [offset, offset + into.size()).
Result<void> readRange(const ExternalFile &file, std::uint64_t offset,
                       std::span<std::byte> into);

/// Returns the contents of a file of at most `limit` bytes. The error for a
/// larger file has exit code 7.
Result<std::string> readText(const ExternalFile &file, std::uint64_t limit);

/// Parses decimal digits, such as `offset` and `length` of external data.
/// Returns nothing for any other character, or on overflow.
std::optional<std::uint64_t> parseDecimal(std::string_view text);

} // namespace binade

#endif // BINADE_CONTAINER_EXTERNALFILE_H
