//===- AppendFile.h - Append-only files of a run ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_APPENDFILE_H
#define BINADE_LIB_RUNTIME_RUNS_APPENDFILE_H

#include "binade/Container/Descriptor.h"
#include "binade/Container/Json.h"
#include <functional>
#include <optional>

namespace binade {

/// A file to which the process that owns the run's directory appends.
class AppendFile {
public:
  /// Creates the file if it does not exist.
  static Result<AppendFile> open(const std::string &path);
  /// Opens a file of JSON lines. Keeps the leading objects for which `stays`
  /// returns true, and truncates the file there, which also removes an
  /// incomplete last line. Fails if the file is not a regular file.
  static Result<AppendFile>
  open(const std::string &path,
       const std::function<bool(const nlohmann::json &)> &stays);

  /// Appends all of `bytes`.
  Result<void> write(std::string_view bytes);
  /// Syncs the file to disk.
  Result<void> sync();

private:
  AppendFile(Descriptor descriptor, std::string path)
      : descriptor(std::move(descriptor)), path(std::move(path)) {}

  /// Truncates the file to `size` bytes.
  Result<void> cut(std::size_t size);

  Descriptor descriptor;
  std::string path;
};

/// A file of JSON lines, each with the `step` it belongs to. The file is
/// created with its first line.
class StepLines {
public:
  /// Truncates an existing file after the lines up to `step`, and removes an
  /// incomplete last line.
  static Result<StepLines> open(const std::string &path, std::int64_t step);

  Result<void> write(std::string_view lines);
  /// Syncs all lines to disk.
  Result<void> sync() { return file ? file->sync() : Result<void>(); }

private:
  explicit StepLines(std::string path) : path(std::move(path)) {}

  std::string path;
  std::optional<AppendFile> file;
};

/// Calls `each` with the objects of a file of JSON lines, except an incomplete
/// last line. Does nothing if the file does not exist. If `each` throws, the
/// line is reported as invalid.
Result<void>
readJsonLines(const std::string &path,
              const std::function<void(const nlohmann::json &)> &each);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_APPENDFILE_H
