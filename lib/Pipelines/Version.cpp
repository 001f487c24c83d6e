//===- Version.cpp - The version that tools print -------------------------===//

#include "binade/Pipelines/Version.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

void mlir::binade::setVersionPrinter() {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "binade " BINADE_VERSION "\nLLVM " LLVM_VERSION_STRING "\n";
  });
}
