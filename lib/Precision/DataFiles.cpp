//===- DataFiles.cpp - YAML files that are shipped, or a user's -----------===//

#include "DataFiles.h"
#include "binade/Container/Suggest.h"
#include "llvm/Support/MemoryBuffer.h"
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
                                           StringRef folder,
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
    return emitError(location)
           << "unknown " << kind.name << " '" << name << "'; expected one of "
           << llvm::join(names, ", ") << ", or a file ending in " << kDataSuffix
           << ::binade::suggest(name.str(), names);
  }
  SmallString<128> path(name);
  if (!folder.empty() && llvm::sys::path::is_relative(name)) {
    path = folder;
    llvm::sys::path::append(path, name);
  }
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return emitError(location) << "cannot read " << kind.name << " file '"
                               << path << "': " << buffer.getError().message();
  StringRef text = (*buffer)->getBuffer();
  if (text.size() > kLargestFile)
    return emitError(FileLineColLoc::get(location->getContext(), path, 1, 1))
           << "a " << kind.name << " of " << text.size() << " bytes; at most "
           << kLargestFile << " are read";
  return DataFile{path.str().str(), text.str(), true};
}
