//===- ParseModule.h - modules from files that others wrote -----*- C++ -*-===//

#ifndef BINADE_IR_PARSEMODULE_H
#define BINADE_IR_PARSEMODULE_H

#include "binade/Container/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::binade {

/// MLIR's parser recurses for every open bracket and leading minus, and a text
/// of a few kilobytes can exhaust the stack: deeper text never reaches it.
inline constexpr unsigned kMaxNesting = 256;

/// Line and column of the first place of `text` that is nested deeper than
/// `kMaxNesting`, strings and comments aside; none if there is no such place.
std::optional<std::pair<unsigned, unsigned>> findDeepNesting(StringRef text);

/// Parses and verifies a textual module, after that check, from a copy that
/// ends with NUL. Dialects that the text needs and `context` does not know are
/// errors; `binade` and what it depends on get loaded. Errors carry line and
/// column and are of exit code 3, or 5 where the system cannot read the file.
::binade::Result<OwningOpRef<ModuleOp>> parseModuleFile(const std::string &path,
                                                        MLIRContext &context);

/// The same for a text that is part of the file `where`.
::binade::Result<OwningOpRef<ModuleOp>>
parseModuleText(const std::string &text, const std::string &where,
                MLIRContext &context);

} // namespace mlir::binade

#endif // BINADE_IR_PARSEMODULE_H
