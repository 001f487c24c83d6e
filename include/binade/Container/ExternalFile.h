//===- ExternalFile.h - Open and read files named by a model ----*- C++ -*-===//
// Every byte that a model, data set or checkpoint keeps in another file is
// read through these functions. The kernel resolves the path, checks are made
// on the opened descriptor, and bytes are copied with pread: a file that
// shrinks or is replaced meanwhile can cause an error, never a fault.
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_EXTERNALFILE_H
#define BINADE_CONTAINER_EXTERNALFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Error.h"
#include <cstdint>
#include <span>

namespace binade {

struct OpenOptions {
  /// Accept a file that has other names too, as stores that share equal files
  /// make them (--allow-links). A hard link may lead to a file outside of the
  /// directory.
  bool allowHardLinks = false;
  /// Resolve the path component by component even where the kernel could do it
  /// at once.
  bool walk = false;
};

/// An open regular file. Movable; closes its descriptor.
class ExternalFile {
public:
  ExternalFile(Descriptor descriptor, std::uint64_t size, std::string path)
      : descriptor(std::move(descriptor)), size(size), path(std::move(path)) {}

  int getDescriptor() const { return descriptor.get(); }
  /// Bytes when it was opened.
  std::uint64_t getSize() const { return size; }
  /// The path for messages, printable.
  const std::string &getPath() const { return path; }

private:
  Descriptor descriptor;
  std::uint64_t size;
  std::string path;
};

/// Opens `location`, a relative path written in a file of `directory` ("" is
/// the current one), for reading. Rejected: empty, absolute, with a `..`
/// component, a backslash or a drive letter; a symbolic link at any component;
/// anything but a regular file; a file with more than one name (see
/// `OpenOptions`). `directory` itself is the user's and may be a link.
Result<ExternalFile> openBeneath(const std::string &directory,
                                 std::string_view location,
                                 OpenOptions options = {});

/// Opens a file that the user named: links are followed, but it has to be a
/// regular file.
Result<ExternalFile> openFile(const std::string &path);

/// Checks that bytes [offset, offset + length) exist, before memory for them
/// is allocated.
Result<void> checkRange(const ExternalFile &file, std::uint64_t offset,
                        std::uint64_t length);

/// Copies bytes [offset, offset + into.size()).
Result<void> readRange(const ExternalFile &file, std::uint64_t offset,
                       std::span<std::byte> into);

/// The whole file, if it has at most `limit` bytes (otherwise exit code 7).
Result<std::string> readText(const ExternalFile &file, std::uint64_t limit);

/// Parses digits and nothing else (as `offset` and `length` of external data
/// are written); no value on a sign, a space, an exponent or overflow.
std::optional<std::uint64_t> parseDecimal(std::string_view text);

} // namespace binade

#endif // BINADE_CONTAINER_EXTERNALFILE_H
