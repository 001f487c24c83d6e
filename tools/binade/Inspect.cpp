//===- Inspect.cpp - binade inspect ---------------------------------------===//

#include "Commands.h"
#include "Model.h"
#include "Write.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/Report.h"
#include "binade/Plan/PlanJson.h"
#include <iostream>

using ::binade::ExitCode;
using ::binade::Program;
using ::binade::Result;

namespace {
struct InspectCommand {
  ImportArguments import;
  StepArguments step;
  OutputArguments output;
  bool json = false, policy = false;

  int run() {
    Model model(import.model, output);
    auto loaded = model.load(import, step, {});
    if (auto *code = std::get_if<int>(&loaded))
      return *code;
    auto &program = std::get<Program>(loaded);
    if (policy) {
      printPolicy(std::cout, program.getPlan());
      return ExitCode::Ok;
    }
    if (json) {
      Result<void> written =
          writeText("-", ::binade::writePlan(program.getPlan()) + "\n");
      return written ? ExitCode::Ok
                     : model.getDiagnostics().fail(written.error());
    }
    printHeading(std::cout, program);
    printLedger(std::cout, program);
    printRecords(std::cout, program.getPlan());
    return ExitCode::Ok;
  }
};
} // namespace

void addInspect(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "inspect", "Show memory, kernels, launches and bytes of a step");
  command->footer("Examples:\n"
                  "  binade inspect step.bnd\n"
                  "  binade inspect model.onnx --policy bf16-amp\n"
                  "  binade inspect step.bnd --json\n"
                  "  binade inspect step.bnd --policy-text");
  auto self = std::make_shared<InspectCommand>();
  self->import.add(*command, "ONNX file, or a bundle of 'binade compile'");
  self->step.add(*command);
  self->output.add(*command);
  auto *json =
      command->add_flag("--json", self->json, "Print the whole plan as JSON");
  command
      ->add_flag("--policy-text", self->policy,
                 "Print what the policy says, and those that it extends")
      ->excludes(json);
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
