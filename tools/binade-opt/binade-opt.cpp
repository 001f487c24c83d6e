//===- binade-opt.cpp - run passes on training graphs ---------------------===//

#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/Version.h"
#include "binade/IR/ParseModule.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Version.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
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

/// Returns the start of the help: what the tool is for, and the pipelines of
/// the phases in order.
static std::string describeTool() {
  std::string text = "Binade's pass driver: runs passes and pipelines on "
                     "modules of the binade "
                     "dialect\n\nPHASES, in order, each of which is a "
                     "pipeline. 'binade import' "
                     "writes a module.\n";
  for (const PhaseDescription &phase : getPhases())
    if (phase.phase <= CompilerPhase::Kernels)
      text += "  --binade-" + phase.name.str() + "-pipeline\n      " +
              phase.summary.str() + "\n";
  return text + "Options of LLVM's targets: --help-hidden";
}

/// Hides the options that LLVM's libraries have registered, such as those of
/// its targets, from the help.
static void hideForeignOptions() {
  constexpr StringLiteral kGeneral[] = {"help", "help-list", "help-hidden",
                                        "help-list-hidden", "version"};
  for (auto &[name, option] : llvm::cl::getRegisteredOptions())
    if (!llvm::is_contained(kGeneral, name))
      option->setHiddenFlag(llvm::cl::Hidden);
}

/// Errors show the place of an op, not its text, which may be a whole module;
/// --mlir-print-op-on-diagnostic prints it.
static void hideOpsOfErrors() {
  registerMLIRContextCLOptions();
  auto &options = llvm::cl::getRegisteredOptions();
  if (auto found = options.find("mlir-print-op-on-diagnostic");
      found != options.end())
    static_cast<llvm::cl::opt<bool> *>(found->second)->setInitialValue(false);
}

int main(int argc, char **argv) {
  ::binade::reportCrashes("binade-opt", argc, argv);
  ::binade::replaceShortVersion(argc, argv);
  setVersionPrinter(::binade::describeVersion);
  hideForeignOptions();
  hideOpsOfErrors();
  llvm::InitLLVM init(argc, argv);
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllPasses();
  registerPipelines();
  auto [input, output] =
      registerAndParseCLIOptions(argc, argv, describeTool(), registry);
  auto config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldListPasses() || config.shouldShowDialects())
    return asMainReturnCode(MlirOptMain(argc, argv, input, output, registry));
  return asMainReturnCode(run(input, output, registry));
}
