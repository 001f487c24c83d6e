//===- ExternalData.h - Tensors that a model keeps beside it ----*- C++ -*-===//
// What ONNX calls external data, for every command that reads or copies them.
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_EXTERNALDATA_H
#define BINADE_IR_EXTERNALDATA_H

#include "binade/Container/ExternalFile.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade {

/// Bytes [offset, offset + size) of the file `location`.
struct ExternalPlace {
  std::string location;
  uint64_t offset = 0, size = 0;
};

/// The files beside one model, each opened once.
class ExternalData {
public:
  /// `directory` is that of the model.
  ExternalData(std::string directory, bool allowHardLinks)
      : directory(std::move(directory)), allowHardLinks(allowHardLinks) {}

  /// Keys and values, as a tensor lists them.
  using Entries = SmallVector<std::pair<StringRef, StringRef>>;
  using Warn = llvm::function_ref<void(const Twine &)>;

  /// Where the `bytes` of a tensor are; `type` is the tensor's, for messages.
  /// Rejects a location that is missing or not beneath the directory, an offset
  /// or length that is not a number, a length other than `bytes`, bytes beyond
  /// the end of the file, and a file whose SHA-1 differs from its `checksum`.
  /// `warn` gets messages about entries that are ignored.
  ::binade::Result<ExternalPlace> find(const Entries &entries, uint64_t bytes,
                                       const Twine &type, Warn warn = {});

  /// The file of a place that was found.
  const ::binade::ExternalFile &getFile(StringRef location) const {
    return files.find(location)->second;
  }

private:
  ::binade::Result<const ::binade::ExternalFile *> open(StringRef location);

  std::string directory;
  bool allowHardLinks;
  llvm::StringMap<::binade::ExternalFile> files;
  llvm::StringSet<> hashed; ///< Files whose checksum was compared.
};

} // namespace mlir::binade

#endif // BINADE_IR_EXTERNALDATA_H
