//===- binade-reduce.cpp - shrink a module that shows a failure -----------===//

#include "ReduceOps.h"
#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/Version.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Version.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  ::binade::reportCrashes("binade-reduce", argc, argv);
  ::binade::replaceShortVersion(argc, argv);
  mlir::binade::setVersionPrinter(::binade::describeVersion);
  mlir::DialectRegistry registry;
  mlir::binade::registerAllDialects(registry);
  mlir::binade::registerAllPasses();
  mlir::binade::registerPipelines();
  mlir::binade::registerReduceOps();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
