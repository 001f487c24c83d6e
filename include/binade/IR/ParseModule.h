//===- ParseModule.h - Parsing of untrusted modules -------------*- C++ -*-===//

#ifndef BINADE_IR_PARSEMODULE_H
#define BINADE_IR_PARSEMODULE_H

#include "binade/Container/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::binade {

/// The maximum nesting of brackets. MLIR's parser recurses for every open
/// bracket and leading minus, so that a text of a few kilobytes can exhaust the
/// stack. Text with deeper nesting is not passed to the parser.
inline constexpr unsigned kMaxNesting = 256;

/// Returns line and column of the first place of `text` that is nested deeper
/// than `kMaxNesting`, ignoring strings and comments; none if there is no such
/// place.
std::optional<std::pair<unsigned, unsigned>> findDeepNesting(StringRef text);

/// Parses and verifies a textual module, after the check for deep nesting.
/// Returns errors with line and column and with exit code 3, or 5 if the system
/// cannot read the file. Loads the `binade` dialect and its dependencies; a
/// dialect that `context` does not know is an error.
::binade::Result<OwningOpRef<ModuleOp>> parseModuleFile(const std::string &path,
                                                        MLIRContext &context);

/// Parses `text`, which is part of the file `where`.
::binade::Result<OwningOpRef<ModuleOp>>
parseModuleText(const std::string &text, const std::string &where,
                MLIRContext &context);

} // namespace mlir::binade

#endif // BINADE_IR_PARSEMODULE_H
