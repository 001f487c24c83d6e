//===- Compile.cpp - binade compile ---------------------------------------===//

#include "Alarms.h"
#include "Commands.h"
#include "Model.h"
#include "Write.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/Suggest.h"
#include "binade/Plan/Bundle.h"
#include "binade/Plan/PlanJson.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Bundle;
using ::binade::ExitCode;
using ::binade::Result;

namespace {
struct CompileCommand {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  AlarmArguments alarms;
  std::string from, to = "target", out;
  std::string record;

  int run() {
    Model model(import.model, output);
    auto fail = [&](const ::binade::Error &error) {
      return model.getDiagnostics().fail(error);
    };
    for (const Result<void> &complete :
         {import.complete(), step.complete(), checkNames()})
      if (!complete)
        return fail(complete.error());
    // A module shows its phase.
    bool isRead = model.isModule() && from.empty();
    if (isRead) {
      if (int code = model.read(import))
        return code;
      from = getName(model.getPhase()).str();
    }
    for (const Result<void> &complete :
         {checkPhases(model.isModule()), completeAlarms()})
      if (!complete)
        return fail(complete.error());
    if (!record.empty())
      step.options.statistics = kRangeStatistics.str();
    CompilerPhase last = *parsePhase(to);
    CompilerPhase first =
        from.empty() ? CompilerPhase::Import : *parsePhase(from);
    if (int code = isRead ? ExitCode::Ok : model.read(import, first))
      return code;
    if (last <= CompilerPhase::Kernels) {
      if (failed(model.advance(last, step.options)))
        return ExitCode::Rejected;
      Result<void> written =
          writeModule(out, model.getModule(), model.getDirectory());
      return written ? ExitCode::Ok : fail(written.error());
    }
    FailureOr<Bundle> bundle = model.compile(step.options);
    if (failed(bundle))
      return ExitCode::Rejected;
    if (bundle->plan.alarms.action == ::binade::OnAlarm::Switch)
      emitWarning(
          model.getModule().getLoc(),
          "a bundle has one policy: at an alarm its runs stop, although "
          "the policy asks to continue under '")
          << ::binade::printable(bundle->plan.alarms.policy) << "'";
    if (FailureOr<Policy> policy = model.loadPolicy(step); succeeded(policy))
      warnAboutIgnoredSchedule(*policy);
    Result<void> written =
        write(std::move(*bundle), last, model.getDirectory());
    return written ? ExitCode::Ok : fail(written.error());
  }

  Result<void> checkNames() {
    for (const std::string &name : {from, to})
      if (!name.empty() && !parsePhase(name)) {
        std::vector<std::string> names;
        for (const PhaseDescription &phase : getPhases())
          names.push_back(phase.name.str());
        return usageError("no phase is called " + ::binade::quote(name) +
                          ::binade::suggest(name, names))
            .withNote("there are " + llvm::join(names, ", "));
      }
    return {};
  }

  Result<void> checkPhases(bool isModule) {
    if (!isModule && !from.empty())
      return usageError(
          "--from is for modules; an ONNX file starts with import");
    CompilerPhase first =
        from.empty() ? CompilerPhase::Import : *parsePhase(from);
    if (*parsePhase(to) < first)
      return usageError("--to=" + to +
                        " is an earlier phase than --from=" + from);
    return step.refuseDone(first);
  }

  Result<void> completeAlarms() {
    bool isSaid = !alarms.words.empty() || !alarms.onAlarm.empty();
    if (isSaid && !from.empty() && *parsePhase(from) >= CompilerPhase::Monitor)
      return usageError("--alarms and --on-alarm belong to phase 'monitor', "
                        "which a module from '" +
                        from + "' has passed already");
    ::binade::AlarmSettings said;
    if (said.setAction(alarms.onAlarm) &&
        said.action == ::binade::OnAlarm::Switch)
      return usageError("a bundle has one policy: --on-alarm expects warn or "
                        "stop, got " +
                        ::binade::quote(alarms.onAlarm));
    return alarms.complete(step.options);
  }

  Result<void> write(Bundle bundle, CompilerPhase last,
                     const std::string &directory) {
    if (last == CompilerPhase::Plan)
      return writeText(out, ::binade::writePlan(bundle.plan) + "\n");
    if (out == "-")
      return usageError(
          "cannot print a bundle to the terminal; name a file by -o");
    if (Result<void> embedded = embedWeights(bundle, directory); !embedded)
      return embedded;
    return ::binade::writeBundle(out, bundle);
  }
};
} // namespace

void addCompile(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "compile",
      "Compile a model to a bundle that contains a training step. With --to, "
      "stop after a phase of the compiler");
  command->footer(
      "Examples:\n"
      "  binade compile model.onnx --policy bf16-amp -o step.bnd\n"
      "  binade compile model.onnx --policy bf16-amp --to=assign -o step.mlir\n"
      "  binade compile step.mlir --from=assign -o step.bnd\n"
      "  binade compile model.onnx --target cuda:sm_90 -o gpu.bnd");
  auto self = std::make_shared<CompileCommand>();
  self->import.add(*command, "ONNX file, or a module (.mlir) that 'binade "
                             "import' or 'binade compile --to' wrote");
  self->step.add(*command);
  self->output.add(*command);
  self->alarms.add(*command);
  command
      ->add_option("--from", self->from,
                   "For a module (.mlir): the last phase that ran on it, such "
                   "as assign; required for phases after 'optimizer'; see "
                   "'binade list phases'")
      ->type_name("PHASE");
  command
      ->add_option("--to", self->to,
                   "Phase to stop after; see 'binade list phases'")
      ->type_name("PHASE")
      ->capture_default_str();
  command
      ->add_option("--record", self->record,
                   "Add code to the bundle that measures the ranges of values; "
                   "required for 'binade train --record' with a bundle")
      ->check(::binade::oneOf({"ranges"}));
  command
      ->add_option(
          "--save-kernels", self->step.options.kernelDirectory,
          "Directory to save the IR, PTX and cubin of each CUDA kernel to, in "
          "files named after the hash of the PTX or cubin")
      ->type_name("DIR");
  command
      ->add_option("-o,--output", self->out,
                   "File to write, by convention .bnd for a bundle and .mlir "
                   "for a module; - for standard output")
      ->type_name("FILE")
      ->required();
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
