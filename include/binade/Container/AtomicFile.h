//===- AtomicFile.h - Write a file completely or not at all -----*- C++ -*-===//

#ifndef BINADE_CONTAINER_ATOMICFILE_H
#define BINADE_CONTAINER_ATOMICFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Error.h"
#include <cstdint>
#include <span>

namespace binade {

/// A file that appears under its name when it is complete and on disk.
///
/// Bytes go to `<path>.tmp-<pid>-<n>` in the same directory. `commit` syncs
/// it, renames it over `path` and syncs the directory; without a successful
/// `commit` the temporary is removed and an older file stays as it was. After
/// an error the object can only be destroyed. Errors are of exit code 5 (7
/// where memory or descriptors ran out) and name the path and the system's
/// reason.
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
  Error failure(std::string_view what, int number) const;

  Descriptor descriptor;
  std::string path;
  std::string temporary; ///< Empty when there is nothing left to remove.
};

/// Writes `text` as the whole of `path`.
Result<void> writeTextFile(const std::string &path, std::string_view text);

} // namespace binade

#endif // BINADE_CONTAINER_ATOMICFILE_H
