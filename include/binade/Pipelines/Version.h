//===- Version.h - The version that tools print -----------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_VERSION_H
#define BINADE_PIPELINES_VERSION_H

namespace mlir::binade {

/// Makes `--version` of LLVM's command line print Binade's version, and then
/// LLVM's. Called before the command line is parsed.
void setVersionPrinter();

} // namespace mlir::binade

#endif // BINADE_PIPELINES_VERSION_H
