//===- Write.h - what the driver writes -------------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_WRITE_H
#define BINADE_TOOLS_BINADE_WRITE_H

#include "binade/Container/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

/// Writes text to `path` atomically; `-` is standard output.
binade::Result<void> writeText(const std::string &path, std::string_view text);

/// Writes a module with its locations, so that names survive.
binade::Result<void> writeModule(const std::string &path,
                                 mlir::ModuleOp module);

#endif // BINADE_TOOLS_BINADE_WRITE_H
