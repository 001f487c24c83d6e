//===- AppendFile.h - A file that grows with a run --------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_APPENDFILE_H
#define BINADE_LIB_RUNTIME_APPENDFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Error.h"

namespace binade {

/// Written at its end, by the one process that has the run's directory.
class AppendFile {
public:
  /// Makes the file when it is not there.
  static Result<AppendFile> open(const std::string &path);

  /// All of `bytes` are in the file afterwards.
  Result<void> write(std::string_view bytes);
  /// Leaves the first `size` bytes.
  Result<void> cut(std::size_t size);
  /// Brings everything to disk.
  Result<void> sync();

private:
  AppendFile(Descriptor descriptor, std::string path)
      : descriptor(std::move(descriptor)), path(std::move(path)) {}

  Descriptor descriptor;
  std::string path;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_APPENDFILE_H
