//===- Version.h - The version that tools print -----------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_VERSION_H
#define BINADE_PIPELINES_VERSION_H

#include <string>

namespace mlir::binade {

/// Makes `--version` of LLVM's command line print what `describe` returns for
/// the version of LLVM, a line. Called before the command line is parsed.
void setVersionPrinter(std::string (*describe)(const std::string &llvm));

} // namespace mlir::binade

#endif // BINADE_PIPELINES_VERSION_H
