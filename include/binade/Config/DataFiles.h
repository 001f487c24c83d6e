//===- DataFiles.h - YAML files that are shipped, or a user's ---*- C++ -*-===//

#ifndef BINADE_CONFIG_DATAFILES_H
#define BINADE_CONFIG_DATAFILES_H

#include "binade/Config/YamlSchema.h"
#include <string_view>

namespace mlir::binade {

/// Names and texts of shipped files.
using DataFiles = std::vector<std::pair<std::string_view, std::string_view>>;

/// A kind of files: what one is called, and the shipped ones.
struct FileKind {
  StringRef name;
  const DataFiles &shipped;
  /// Names that stand for something without a file.
  ArrayRef<StringLiteral> others = {};
  /// Which of the shipped files to name where one is unknown; all if empty.
  std::function<bool(StringRef)> isOffered = {};
};

struct DataFile {
  /// As diagnostics and rules name it.
  std::string file;
  std::string text;
  /// Whether a user wrote it; the others are shipped.
  bool isUser;
};

/// What the name of a file ends with that is not shipped.
inline constexpr StringLiteral kDataSuffix = ".yaml";

/// The shipped files without their suffix, sorted.
std::vector<StringRef> getNames(const DataFiles &files);

/// The file of `kind` called `name`, or the file `name`. One that another file
/// names has to lie beneath `folder`, which that is in. Errors are reported at
/// `location`.
FailureOr<DataFile> findFile(FileKind kind, StringRef name,
                             std::optional<StringRef> folder,
                             Location location);

/// Reads one file by `form`; `what` names its contents.
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
