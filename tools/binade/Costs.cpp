//===- Costs.cpp - binade costs -------------------------------------------===//

#include "Commands.h"
#include "Diagnostics.h"
#include "MeasureCosts.h"
#include "Write.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Precision/Policy.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;
using ::binade::Result;

namespace {
struct CostsCommand {
  CompileOptions options;
  ::binade::DiagnosticFormat form = ::binade::DiagnosticFormat::Text;
  std::string out = "-";
  bool measure = false;

  int run() {
    MLIRContext context;
    Diagnostics diagnostics(context, "binade", form);
    if (!measure) {
      for (StringRef name : getCostNames())
        llvm::outs() << name << "\n";
      return ExitCode::Ok;
    }
    MLIRContext measured(makeRegistry());
    Result<TargetCosts> costs = measureCosts(options, measured);
    if (!costs)
      return diagnostics.fail(costs.error());
    Result<void> written = writeText(out, writeCosts(*costs));
    return written ? ExitCode::Ok : diagnostics.fail(written.error());
  }
};
} // namespace

void addCosts(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "costs",
      "List the cost tables of number formats, or measure one. They are for "
      "policies that choose the cheapest formats ('cut: { costs: FILE }')");
  command->footer("Examples:\n"
                  "  binade costs\n"
                  "  binade costs --measure -o here.yaml");
  auto self = std::make_shared<CostsCommand>();
  command->add_flag("--measure", self->measure,
                    "Measure the costs on this machine; without this option, "
                    "list the tables that Binade ships");
  command
      ->add_option(
          "--threads", self->options.threads,
          "Threads of library calls such as matmuls; 0 for one per core")
      ->check(::binade::integer<unsigned>(0, ::binade::plan::kMaxThreads))
      ->capture_default_str();
  command
      ->add_option(
          "-o,--output", self->out,
          "File to write the measured costs to, as YAML; - for standard output")
      ->type_name("FILE.yaml")
      ->capture_default_str();
  ::binade::addDiagnosticFormat(*command, self->form);
  command->callback([&run, self] { run = [self] { return self->run(); }; });
}
