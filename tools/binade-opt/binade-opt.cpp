//===- binade-opt.cpp - run passes on training graphs ---------------------===//

#include "binade/Pipelines/Pipelines.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::binade::registerAllDialects(registry);
  mlir::binade::registerAllPasses();
  mlir::binade::registerPipelines();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Binade pass driver\n", registry));
}
