//===- DataFiles.cpp - YAML files, shipped or a user's --------------------===//

#include "binade/Config/DataFiles.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Suggest.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr size_t kLargestFile = 8 << 20;

std::vector<StringRef> mlir::binade::getNames(const DataFiles &files) {
  std::vector<StringRef> names;
  for (auto [file, text] : files)
    names.push_back(StringRef(file).drop_back(kDataSuffix.size()));
  llvm::sort(names);
  return names;
}

FailureOr<DataFile> mlir::binade::findFile(FileKind kind, StringRef name,
                                           std::optional<StringRef> folder,
                                           Location location) {
  if (!name.ends_with(kDataSuffix)) {
    for (auto [file, text] : kind.shipped)
      if (StringRef(file).drop_back(kDataSuffix.size()) == name)
        return DataFile{std::string(file), std::string(text), false};
    std::vector<StringRef> shipped = getNames(kind.shipped);
    std::vector<std::string> names(kind.others.begin(), kind.others.end());
    for (StringRef one : shipped)
      if (!kind.isOffered || kind.isOffered(one))
        names.push_back(one.str());
    std::string near = ::binade::suggest(name.str(), names);
    std::string known =
        llvm::join(names, ", ") + ", or a file ending in " + kDataSuffix.str();
    InFlightDiagnostic error = emitError(location);
    error << "unknown " << kind.name << " '" << name << "'";
    if (near.empty())
      return error << "; expected one of " << known;
    error << near;
    error.attachNote() << "there are " << known;
    return error;
  }
  SmallString<128> path(folder.value_or(""));
  llvm::sys::path::append(path, name);
  auto file = folder ? ::binade::openBeneath(folder->str(), name)
                     : ::binade::openFile(name.str());
  ::binade::Result<std::string> text =
      file ? ::binade::readText(*file, kLargestFile) : file.takeError();
  if (text)
    return DataFile{path.str().str(), std::move(*text), true};
  InFlightDiagnostic error = emitError(location);
  error << "cannot read " << kind.name << " file '" << path
        << "': " << text.error().message;
  for (const std::string &note : text.error().notes)
    error.attachNote() << note;
  return error;
}
