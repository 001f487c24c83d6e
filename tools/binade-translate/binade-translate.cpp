//===- binade-translate.cpp - Translate ONNX and kernels ------------------===//

#include "Translations.h"
#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/Version.h"
#include "binade/Export/WriteOnnx.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/Import/ONNX/Import.h"
#include "binade/Pipelines/Version.h"
#include "binade/Raising/Passes.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::binade;
namespace cl = llvm::cl;

namespace {
/// The options of --import-onnx.
struct ImportFlags {
  cl::OptionCategory category{"Options of --import-onnx"};
  cl::list<std::string> dims{
      "dim", cl::cat(category), cl::value_desc("name=value"),
      cl::desc("Size of a symbolic dimension, such as batch=8 (repeatable)")};
  cl::opt<std::string> loss{
      "loss", cl::cat(category), cl::value_desc("expression"),
      cl::desc("Loss to append to the graph: 'cross_entropy(OUTPUT, INPUT[, "
               "axis=N][, ignore_index=N])' or 'mse(OUTPUT, INPUT)'; INPUT is "
               "added if the graph lacks it")};
  cl::opt<std::string> lossOutput{
      "loss-output", cl::cat(category), cl::value_desc("name"),
      cl::desc("Name of the output that is the loss; by default 'loss'")};
  cl::list<std::string> freeze{
      "freeze", cl::cat(category), cl::value_desc("glob"),
      cl::desc("Do not train the initializers whose names match (repeatable)")};
  cl::list<std::string> fold{"fold", cl::cat(category), cl::value_desc("glob"),
                             cl::desc("Import the initializers whose names "
                                      "match as constants (repeatable)")};
  cl::list<std::string> train{
      "train", cl::cat(category), cl::value_desc("glob"),
      cl::desc("Train only the initializers whose names match (repeatable)")};
  cl::list<std::string> alsoTrain{
      "also-train", cl::cat(category), cl::value_desc("glob"),
      cl::desc("Also train the initializers whose names match (repeatable)")};
  cl::opt<bool> allowLinks{
      "allow-external-data-links", cl::cat(category),
      cl::desc("Read external data from files that are hard links, which have "
               "more than one name")};
  cl::opt<bool> noRecognize{"no-recognize", cl::cat(category),
                            cl::desc("Do not replace decomposed functions, "
                                     "such as softmax, by single ops")};
  cl::opt<bool> report{
      "report", cl::cat(category),
      cl::desc("Print counts of parameters, buffers and constants to stderr")};

  FailureOr<ImportOptions> get(MLIRContext *context) const {
    ImportOptions options;
    for (StringRef text : dims) {
      auto [name, value] = text.split('=');
      int64_t number;
      if (name.empty() || value.getAsInteger(10, number))
        return emitError(UnknownLoc::get(context))
               << "expected --dim name=value, got '" << text << "'";
      options.dims[name] = number;
    }
    options.loss = loss;
    options.lossOutput = lossOutput;
    options.fold.assign(fold.begin(), fold.end());
    options.freeze.assign(freeze.begin(), freeze.end());
    options.train.assign(train.begin(), train.end());
    options.alsoTrain.assign(alsoTrain.begin(), alsoTrain.end());
    options.allowHardLinks = allowLinks;
    options.recognize = !noRecognize;
    return options;
  }
};
} // namespace

static OwningOpRef<Operation *> importFile(llvm::SourceMgr &sources,
                                           MLIRContext *context,
                                           const ImportFlags &flags) {
  const llvm::MemoryBuffer *file =
      sources.getMemoryBuffer(sources.getMainFileID());
  DiagnosticPrinter printer(context, llvm::errs(), file->getBufferIdentifier());
  FailureOr<ImportOptions> options = flags.get(context);
  if (failed(options))
    return {};
  ImportReport report;
  FailureOr<OwningOpRef<ModuleOp>> module =
      importOnnx(*file, *options, context, &report);
  if (failed(module))
    return {};
  if (options->recognize)
    recognizeComposites((*module)->lookupSymbol<func::FuncOp>(kForwardName));
  if (flags.report)
    report.print(llvm::errs());
  return OwningOpRef<Operation *>(module->release());
}

int main(int argc, char **argv) {
  ::binade::reportCrashes("binade-translate", argc, argv);
  ::binade::replaceShortVersion(argc, argv);
  setVersionPrinter(::binade::describeVersion);
  ImportFlags flags;
  TranslateToMLIRRegistration registration(
      "import-onnx", "import an ONNX file as a module",
      [&](llvm::SourceMgr &sources, MLIRContext *context) {
        return importFile(sources, context, flags);
      });
  TranslateFromMLIRRegistration exportRegistration(
      "export-onnx",
      "write a module as an ONNX file, to be stored next to the module's "
      "external files",
      [](ModuleOp module, raw_ostream &os) {
        FailureOr<std::string> bytes = writeOnnx(module);
        if (failed(bytes))
          return failure();
        os << *bytes;
        return success();
      },
      registerAllDialects);
  registerKernelTranslations();
  return failed(mlirTranslateMain(
      argc, argv,
      "Translates ONNX files to modules, modules to ONNX files, and kernels to "
      "LLVM IR, PTX or machine code\n"));
}
