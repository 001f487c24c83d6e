//===- Trace.cpp - binade trace -------------------------------------------===//

#include "Commands.h"
#include "Model.h"
#include "TraceReport.h"
#include "Write.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/IR/Interface.h"
#include "binade/Reference/TensorFile.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::Result;

namespace {
struct TraceCommand {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  std::string inputs, out = "-", onNonFinite;
  bool compares = false;

  int run() {
    if (auto answer = ::binade::parseOnNonFinite(onNonFinite))
      step.options.onNonfinite =
          getCompiledAnswer(*answer, step.options.releaseGradients);
    Model model(import.model, output);
    if (int code = model.readStep(import, step))
      return code;
    if (failed(model.advance(CompilerPhase::Assign, step.options)))
      return ExitCode::Rejected;
    OwningOpRef<ModuleOp> exact;
    if (compares) {
      exact = makeUnroundedCopy(model.getModule());
      // A budget inserts copies, which do not belong to the model.
      CompileOptions unlimited = step.options;
      unlimited.budget.clear();
      if (failed(runPhases(*exact, CompilerPhase::Assign,
                           CompilerPhase::Programs, unlimited)))
        return ExitCode::Rejected;
    }
    if (failed(model.advance(CompilerPhase::Programs, step.options)))
      return ExitCode::Rejected;
    auto given = readTensors(inputs, model.getModule().getContext(),
                             getStepInputs(model.getModule()));
    if (!given)
      return model.getDiagnostics().fail(given.error());
    FailureOr<StepTrace> trace =
        traceStep(model.getModule(), exact ? *exact : ModuleOp(), *given,
                  model.getDirectory());
    if (failed(trace))
      return ExitCode::Rejected;
    llvm::json::Value report = toJson(*trace);
    Result<void> written =
        writeText(out, llvm::formatv("{0:2}\n", report).str());
    return written ? ExitCode::Ok
                   : model.getDiagnostics().fail(written.error());
  }
};
} // namespace

void addTrace(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "trace",
      "Compute one training step op by op, with statistics of each result");
  command->footer("Examples:\n"
                  "  binade train model.onnx --data train.safetensors --policy "
                  "fp16-amp --steps 3 \\\n"
                  "      --out run --save-inputs step.safetensors\n"
                  "  binade trace model.onnx --policy fp16-amp --inputs "
                  "step.safetensors --compare\n"
                  "'binade shadow' and 'binade why-nan' run both commands and "
                  "print tables.");
  auto self = std::make_shared<TraceCommand>();
  self->import.add(*command, "ONNX file, or a module (.mlir) of a phase up to "
                             "'optimizer'");
  self->step.add(*command);
  self->output.add(*command);
  command
      ->add_option("--inputs", self->inputs,
                   "Inputs of the step: its batch and the state before it, "
                   "which 'binade train --save-inputs' writes")
      ->required()
      ->type_name("FILE.safetensors");
  command
      ->add_option("--on-nonfinite", self->onNonFinite,
                   "The value of --on-nonfinite of the 'binade train' command "
                   "that wrote the inputs")
      ->check(::binade::oneOf({"stop", "skip", "continue", "shrink"}));
  command->add_flag(
      "--compare", self->compares,
      "Compare the result of each op with f64: the error that the op "
      "introduces, and the error that it inherits from its operands");
  command
      ->add_option("-o,--output", self->out,
                   "File to write the JSON report to; - for standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
