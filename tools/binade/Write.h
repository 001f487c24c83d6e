//===- Write.h - what the driver writes -------------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_WRITE_H
#define BINADE_TOOLS_BINADE_WRITE_H

#include "binade/Container/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

/// Writes text to `path` atomically; `-` is standard output.
::binade::Result<void> writeText(const std::string &path,
                                 std::string_view text);

/// Writes a module with its locations, so that names survive. Names of weight
/// files, which are relative to `directory`, become relative to that of `path`.
/// Warns if they are not in that directory or below, where they are looked for.
::binade::Result<void> writeModule(const std::string &path,
                                   mlir::ModuleOp module,
                                   const std::string &directory);

#endif // BINADE_TOOLS_BINADE_WRITE_H
