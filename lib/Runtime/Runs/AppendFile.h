//===- AppendFile.h - A file that grows with a run --------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_APPENDFILE_H
#define BINADE_LIB_RUNTIME_RUNS_APPENDFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Json.h"
#include <functional>
#include <optional>

namespace binade {

/// Written at its end, by the one process that has the run's directory.
class AppendFile {
public:
  /// Makes the file when it is not there.
  static Result<AppendFile> open(const std::string &path);
  /// The same for a file of JSON lines: leaves the first objects for which
  /// `stays`, and cuts off the rest, such as a line that a dying process began.
  /// Fails for what is no regular file.
  static Result<AppendFile>
  open(const std::string &path,
       const std::function<bool(const nlohmann::json &)> &stays);

  /// All of `bytes` are in the file afterwards.
  Result<void> write(std::string_view bytes);
  /// Brings everything to disk.
  Result<void> sync();

private:
  AppendFile(Descriptor descriptor, std::string path)
      : descriptor(std::move(descriptor)), path(std::move(path)) {}

  /// Leaves the first `size` bytes.
  Result<void> cut(std::size_t size);

  Descriptor descriptor;
  std::string path;
};

/// JSON lines of steps, each with its `step`. The file is made by the first
/// line: where none is written there need be none.
class StepLines {
public:
  /// Cuts off what follows `step`, and a line without an end.
  static Result<StepLines> open(const std::string &path, std::int64_t step);

  Result<void> write(std::string_view lines);
  /// Brings all lines to disk.
  Result<void> sync() { return file ? file->sync() : Result<void>(); }

private:
  explicit StepLines(std::string path) : path(std::move(path)) {}

  std::string path;
  std::optional<AppendFile> file;
};

/// Calls `each` with the objects of a file of JSON lines, but for what a dying
/// process began. There need be no file. What `each` throws says that a line is
/// none of a run's.
Result<void>
readJsonLines(const std::string &path,
              const std::function<void(const nlohmann::json &)> &each);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_APPENDFILE_H
