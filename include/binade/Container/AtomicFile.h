//===- AtomicFile.h - Atomic creation of files ------------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_ATOMICFILE_H
#define BINADE_CONTAINER_ATOMICFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Error.h"
#include <cstdint>
#include <span>

namespace binade {

/// A file that appears under its name only when it is complete and on disk.
///
/// Bytes are written to `<path>.tmp-<pid>-<n>` in the same directory. `commit`
/// syncs it, renames it to `path` and syncs the directory. Without a successful
/// `commit`, the temporary file is removed, and an existing file is not
/// changed. Bytes for a device or a pipe, such as /dev/null, are in memory
/// until `commit` writes them there. After an error the object can only be
/// destroyed. Errors have exit code 5 (7 if memory or descriptors ran out) and
/// name the path and the system's reason.
class AtomicFile {
public:
  static Result<AtomicFile> create(const std::string &path);

  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) = delete;
  ~AtomicFile();

  /// Writes `bytes` at `offset`; may leave holes, which read as zeros.
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);

  Result<void> commit();

private:
  AtomicFile(Descriptor descriptor, std::string path, std::string temporary);
  static Result<AtomicFile> createForStream(const std::string &path);
  Error failure(std::string_view what, int number) const;

  Descriptor descriptor;
  std::string path;
  /// Empty for a device or pipe, and after `commit`.
  std::string temporary;
};

/// Writes `text` to the file `path`, atomically.
Result<void> writeTextFile(const std::string &path, std::string_view text);

} // namespace binade

#endif // BINADE_CONTAINER_ATOMICFILE_H
