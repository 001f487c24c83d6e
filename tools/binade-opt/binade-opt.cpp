//===- binade-opt.cpp - run passes on training graphs ---------------------===//

#include "binade/CommandLine/CrashReport.h"
#include "binade/IR/ParseModule.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Version.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mlir::binade;

/// Runs the passes on a file. Rejects text that nests too deeply for MLIR's
/// parser, which recurses without a limit.
static LogicalResult run(StringRef input, StringRef output,
                         DialectRegistry &registry) {
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(input, &error);
  if (!file) {
    llvm::errs() << error << "\n";
    return failure();
  }
  if (auto place = findDeepNesting(file->getBuffer())) {
    llvm::errs() << input << ":" << place->first << ":" << place->second
                 << ": error: nesting deeper than " << kMaxNesting
                 << " levels\n";
    return failure();
  }
  std::unique_ptr<llvm::ToolOutputFile> out = openOutputFile(output, &error);
  if (!out) {
    llvm::errs() << error << "\n";
    return failure();
  }
  if (failed(MlirOptMain(out->os(), std::move(file), registry,
                         MlirOptMainConfig::createFromCLOptions())))
    return failure();
  out->keep();
  return success();
}

int main(int argc, char **argv) {
  ::binade::reportCrashes("binade-opt", argc, argv);
  setVersionPrinter();
  llvm::InitLLVM init(argc, argv);
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllPasses();
  registerPipelines();
  auto [input, output] =
      registerAndParseCLIOptions(argc, argv, "Binade pass driver\n", registry);
  auto config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldListPasses() || config.shouldShowDialects())
    return asMainReturnCode(MlirOptMain(argc, argv, input, output, registry));
  return asMainReturnCode(run(input, output, registry));
}
