//===- DataFiles.h - YAML files, shipped or a user's ------------*- C++ -*-===//

#ifndef BINADE_CONFIG_DATAFILES_H
#define BINADE_CONFIG_DATAFILES_H

#include "binade/Config/YamlSchema.h"
#include <string_view>

namespace mlir::binade {

/// Names and texts of shipped files.
using DataFiles = std::vector<std::pair<std::string_view, std::string_view>>;

/// A kind of files: its name in messages, and the shipped files.
struct FileKind {
  StringRef name;
  const DataFiles &shipped;
  /// Names that are valid without a file.
  ArrayRef<StringLiteral> others = {};
  /// Whether to offer a shipped file in an error about an unknown name; all if
  /// empty.
  std::function<bool(StringRef)> isOffered = {};
};

struct DataFile {
  /// The name in diagnostics and rules.
  std::string file;
  std::string text;
  /// Whether it is a user's file, not a shipped one.
  bool isUser;
};

/// The suffix of names that refer to a user's file.
inline constexpr StringLiteral kDataSuffix = ".yaml";

/// Returns the names of the shipped files without their suffix, sorted.
std::vector<StringRef> getNames(const DataFiles &files);

/// Finds the file of `kind` called `name`, or the file `name` if it has the
/// suffix. If another file refers to it, it must be within `folder`, the folder
/// of that file. Emits errors at `location`.
FailureOr<DataFile> findFile(FileKind kind, StringRef name,
                             std::optional<StringRef> folder,
                             Location location);

/// Parses one file by `form`; `what` describes the contents in errors.
template <typename T>
FailureOr<T> parseFile(const DataFile &file, StringRef what,
                       const YamlSchema<T> &form, MLIRContext *context) {
  YamlReader reader(file.text, file.file, context);
  if (reader.hasFailed())
    return failure();
  if (!reader.getRoot())
    return emitError(FileLineColLoc::get(context, file.file, 1, 1))
           << "expected " << what << ", found nothing";
  T value;
  if (failed(form.read(reader, *reader.getRoot(), value)) ||
      reader.hasFailed() || failed(reader.finish()))
    return failure();
  return value;
}

} // namespace mlir::binade

#endif // BINADE_CONFIG_DATAFILES_H
