//===- Write.cpp - What the driver writes ---------------------------------===//

#include "Write.h"
#include "binade/Container/AtomicFile.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Binade.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <iostream>

using namespace mlir;
using namespace mlir::binade;
using ::binade::Result;

Result<void> writeText(const std::string &path, std::string_view text) {
  if (path != "-")
    return ::binade::writeTextFile(path, text);
  std::cout << text << std::flush;
  return {};
}

/// Returns `directory` without links; empty if there is none.
static std::string resolve(llvm::StringRef directory) {
  llvm::SmallString<256> resolved;
  if (llvm::sys::fs::real_path(directory.empty() ? "." : directory, resolved))
    return "";
  return std::string(resolved);
}

/// Prefixes the names of weight files, which are in `from`, so that they are
/// found from the directory of `path`.
static void relocateWeights(ModuleOp module, const std::string &from,
                            const std::string &path) {
  std::string source = resolve(from),
              target = resolve(llvm::sys::path::parent_path(path));
  if (source == target || target.empty())
    return; // Writing reports a missing directory.
  llvm::StringRef prefix = source;
  bool isBelow = prefix.consume_front(target) &&
                 (prefix.consume_front("/") || target == "/");
  std::string file;
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](ExternalAttr data) -> std::optional<Attribute> {
    file = data.getFile().str();
    if (!isBelow)
      return data;
    auto name = StringAttr::get(data.getContext(), prefix + "/" + file);
    return ExternalAttr::get(data.getContext(), data.getType(), name,
                             data.getOffset(), data.getBytes(),
                             data.getSha256());
  });
  replacer.recursivelyReplaceElementsIn(module);
  if (!file.empty() && !isBelow)
    mlir::emitWarning(module.getLoc())
        << ::binade::printable(path) << " refers to weight file '"
        << ::binade::printable(file) << "' in " << ::binade::printable(source)
        << "; weights must be in the module's directory or below: write the "
           "module to "
        << ::binade::printable(source);
}

Result<void> writeModule(const std::string &path, ModuleOp module,
                         const std::string &directory) {
  if (path != "-")
    relocateWeights(module, directory, path);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().enableDebugInfo());
  return writeText(path, text + "\n");
}
