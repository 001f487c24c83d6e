//===- binade-lsp-server.cpp - training graphs in an editor ---------------===//
//
// Serves the Language Server Protocol on stdin and stdout; see docs/Editor.md.
//
//===----------------------------------------------------------------------===//

#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/Version.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Version.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  ::binade::reportCrashes("binade-lsp-server", argc, argv);
  ::binade::replaceShortVersion(argc, argv);
  mlir::binade::setVersionPrinter(::binade::describeVersion);
  mlir::DialectRegistry registry;
  mlir::binade::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
