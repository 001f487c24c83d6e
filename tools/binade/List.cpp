//===- List.cpp - binade list ---------------------------------------------===//

#include "Commands.h"
#include "Policy.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/Error.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Precision/StateFormats.h"
#include "binade/Runtime/Library.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <iostream>

using namespace mlir;
using namespace mlir::binade;
using ::binade::oneOf;

static void listOptimizers() {
  MLIRContext context;
  size_t width = 0;
  for (StringRef name : getRuleNames())
    width = std::max(width, name.size());
  for (StringRef name : getRuleNames()) {
    FailureOr<Rule> rule = loadRule(name, &context);
    size_t states = rule->optimizer.getStates().size();
    llvm::outs() << llvm::left_justify(name, width)
                 << llvm::formatv("  {0,2} bytes of state per parameter;",
                                  4 * states);
    for (auto setting : rule->optimizer.getHypers().getAsRange<SettingAttr>())
      llvm::outs() << " " << setting.getName().getValue() << "="
                   << llvm::format("%g", setting.getDefault());
    llvm::outs() << "\n";
  }
}

static void listFormats() {
  MLIRContext context;
  context.getOrLoadDialect<BinadeDialect>();
  std::vector<StateFormatInfo> formats = listStateFormats(&context);
  size_t width = 0;
  for (const StateFormatInfo &format : formats)
    width = std::max(width, format.name.size());
  for (const StateFormatInfo &format : formats)
    llvm::outs() << llvm::left_justify(format.name, width)
                 << llvm::formatv("  {0,5:F2} bytes per element; {1}\n",
                                  format.bytes, format.summary);
}

static void listPhases() {
  for (const PhaseDescription &phase : getPhases())
    llvm::outs() << llvm::formatv("{0,-12} {1}\n", phase.name, phase.summary);
}

void addList(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "list", "List policies, optimizers, formats or phases");
  command->footer("Examples:\n"
                  "  binade list policies\n"
                  "  binade list optimizers\n"
                  "  binade list formats\n"
                  "  binade list phases");
  auto what = std::make_shared<std::string>();
  command->add_option("what", *what, "What to list")
      ->required()
      ->check(oneOf({"policies", "optimizers", "formats", "phases"}));
  command->callback([&run, what] {
    run = [what] {
      if (*what == "policies")
        listPolicies();
      else if (*what == "optimizers")
        listOptimizers();
      else if (*what == "formats")
        listFormats();
      else
        listPhases();
      return int(::binade::ExitCode::Ok);
    };
  });
}
