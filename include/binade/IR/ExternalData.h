//===- ExternalData.h - Tensors stored next to a model ----------*- C++ -*-===//
//
// Finds ONNX's external data, for all commands that read or copy them.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_EXTERNALDATA_H
#define BINADE_IR_EXTERNALDATA_H

#include "binade/Container/ExternalFile.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade {

/// The bytes [offset, offset + size) of the file `location`.
struct ExternalPlace {
  std::string location;
  uint64_t offset = 0, size = 0;
};

/// The external files of one model. Opens each file once.
class ExternalData {
public:
  /// `directory` is the model's directory.
  ExternalData(std::string directory, bool allowHardLinks)
      : directory(std::move(directory)), allowHardLinks(allowHardLinks) {}

  /// The keys and values of a tensor's entry.
  using Entries = SmallVector<std::pair<StringRef, StringRef>>;
  using Warn = llvm::function_ref<void(const Twine &)>;

  /// Finds the `bytes` of a tensor; `type` is the tensor's, for messages.
  /// Returns an error for a location that is missing or outside of the
  /// directory, an offset or length that is not a number, a length other than
  /// `bytes`, bytes beyond the end of the file, and a file whose SHA-1 differs
  /// from its `checksum`. Calls `warn` for entries that it ignores.
  ::binade::Result<ExternalPlace> find(const Entries &entries, uint64_t bytes,
                                       const Twine &type, Warn warn = {});

  /// Returns the file of a place that `find` returned.
  const ::binade::ExternalFile &getFile(StringRef location) const {
    return files.find(location)->second;
  }

private:
  ::binade::Result<const ::binade::ExternalFile *> open(StringRef location);

  std::string directory;
  bool allowHardLinks;
  llvm::StringMap<::binade::ExternalFile> files;
  llvm::StringSet<> hashed; ///< Files whose checksum was verified.
};

} // namespace mlir::binade

#endif // BINADE_IR_EXTERNALDATA_H
