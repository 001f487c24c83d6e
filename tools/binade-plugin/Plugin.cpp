//===- Plugin.cpp - Binade inside a stock mlir-opt ------------------------===//
//
// mlir-opt --load-dialect-plugin=BinadePlugin.so adds the dialect,
// --load-pass-plugin=BinadePlugin.so the passes and pipelines.
//
//===----------------------------------------------------------------------===//

#include "binade/Pipelines/Pipelines.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Binade", BINADE_VERSION,
          [](DialectRegistry *registry) {
            mlir::binade::registerAllDialects(*registry);
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Binade", BINADE_VERSION, [] {
            mlir::binade::registerAllPasses();
            mlir::binade::registerPipelines();
          }};
}
