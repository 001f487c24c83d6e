//===- Version.cpp - The version that tools print -------------------------===//

#include "binade/Pipelines/Version.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

void mlir::binade::setVersionPrinter(
    std::string (*describe)(const std::string &llvm)) {
  llvm::cl::SetVersionPrinter([describe](llvm::raw_ostream &os) {
    os << describe("LLVM " LLVM_VERSION_STRING "\n") << "\n";
  });
}
