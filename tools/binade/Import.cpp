//===- Import.cpp - binade import -----------------------------------------===//

#include "Commands.h"
#include "ImportReport.h"
#include "Model.h"
#include "Write.h"
#include "binade/CommandLine/CommandLine.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::Result;

namespace {
struct ImportCommand {
  ImportArguments import;
  OutputArguments output;
  std::optional<std::string> out;
  bool report = false;

  int run() {
    Model model(import.model, output);
    if (Result<void> complete = import.complete(); !complete)
      return model.getDiagnostics().fail(complete.error());
    if (model.isModule()) {
      // A module of another tool is not imported already.
      if (Result<void> known = model.checkModule(); !known)
        return model.getDiagnostics().fail(known.error());
      return model.getDiagnostics().fail(
          usageError(::binade::printable(model.getPath()) +
                     " is a module: it is imported already"));
    }
    if (int code = model.read(import))
      return code;
    model.getReport().print(llvm::errs());
    if (report)
      printImported(llvm::errs(), model.getModule());
    if (report && !out)
      return ExitCode::Ok;
    if (Result<void> written = writeModule(out.value_or("-"), model.getModule(),
                                           model.getDirectory());
        !written)
      return model.getDiagnostics().fail(written.error());
    return ExitCode::Ok;
  }
};
} // namespace

void addImport(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "import", "Import an ONNX file as an MLIR module");
  command->footer("Examples:\n"
                  "  binade import model.onnx -o model.mlir\n"
                  "  binade import model.onnx --report -o model.mlir\n"
                  "  binade import model.onnx --dim batch=8 "
                  "--loss 'cross_entropy(logits, labels)' \\\n"
                  "      -o model.mlir\n"
                  "  binade import model.onnx --fail-on-nonfinite "
                  "-o model.mlir");
  auto self = std::make_shared<ImportCommand>();
  self->import.add(*command, "ONNX file");
  self->output.add(*command);
  command->add_flag("--report", self->report,
                    "Print the forward, backward and optimizer parts, inputs "
                    "and updates that were recognized in the graph; without "
                    "-o, only this is printed");
  command
      ->add_option("-o,--output", self->out,
                   "File to write the module (.mlir) to; - for standard "
                   "output, the default "
                   "without --report")
      ->type_name("FILE.mlir");
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
