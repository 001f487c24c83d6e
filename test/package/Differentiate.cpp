//===- Differentiate.cpp - the dialect and a pass in another program ------===//

#include "binade/Autodiff/Passes.h"
#include "binade/IR/Binade.h"
#include "binade/Pipelines/Pipelines.h"
#include "mlir/Parser/Parser.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::binade::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  mlir::PassManager passes(&context);
  passes.addPass(mlir::binade::createBuildGradientPass());
  if (failed(passes.run(*module)))
    return 1;
  module->print(llvm::outs());
  return 0;
}
