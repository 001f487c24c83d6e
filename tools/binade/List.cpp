//===- List.cpp - binade list ---------------------------------------------===//

#include "Commands.h"
#include "Policy.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/Report.h"
#include "binade/Container/Error.h"
#include "binade/IR/Rules.h"
#include "binade/Monitor/Requests.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "binade/Pipelines/AlarmRules.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Target.h"
#include "binade/Precision/StateFormats.h"
#include "binade/Runtime/Library.h"
#include "binade/Runtime/NamedSchedules.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <iostream>

using namespace mlir;
using namespace mlir::binade;
using ::binade::oneOf;

/// Describes the optimizer state of a rule: bytes per element, row and column.
/// Single numbers are left out.
static std::string describeStates(OptimizerOp optimizer) {
  SmallVector<func::FuncOp> prepares = getPrepares(optimizer);
  func::FuncOp prepare = prepares.empty() ? func::FuncOp() : prepares.front();
  size_t states = optimizer.getStates().size();
  size_t elementwise = 0;
  bool hasRows = false, hasColumns = false;
  for (size_t state = 0; state < states; ++state) {
    if (isElementwise(prepare, state)) {
      ++elementwise;
      continue;
    }
    auto getShape = [&](size_t argument) {
      return cast<RankedTensorType>(prepare.getArgumentTypes()[argument])
          .getShape();
    };
    if (ArrayRef<int64_t> shape = getShape(2 + state); !shape.empty())
      (shape.front() == getShape(0).front() ? hasRows : hasColumns) = true;
  }
  std::string text =
      llvm::formatv("{0,2} bytes of state per parameter", 4 * elementwise);
  if (hasRows || hasColumns)
    text += hasRows && hasColumns ? ", 4 per row and column"
            : hasRows             ? ", 4 per row"
                                  : ", 4 per column";
  return text;
}

static void listOptimizers() {
  MLIRContext context;
  size_t width = 0;
  for (StringRef name : getRuleNames())
    width = std::max(width, name.size());
  for (StringRef name : getRuleNames()) {
    FailureOr<Rule> rule = loadRule(name, &context);
    OptimizerOp optimizer = rule->optimizer;
    llvm::outs() << llvm::left_justify(name, width) << "  "
                 << describeStates(optimizer) << ";";
    for (auto setting : optimizer.getHypers().getAsRange<SettingAttr>())
      llvm::outs() << " " << setting.getName().getValue() << "="
                   << llvm::format("%g", setting.getDefault());
    if (auto others = optimizer.getOthers())
      llvm::outs() << "; other parameters by " << *others;
    if (DictionaryAttr variants = optimizer.getVariantsAttr()) {
      llvm::outs() << "; variants";
      for (NamedAttribute variant : variants)
        llvm::outs() << " " << variant.getName().getValue();
    }
    llvm::outs() << "\n";
  }
}

static void listFormats() {
  MLIRContext context;
  context.getOrLoadDialect<BinadeDialect>();
  std::vector<FormatInfo> formats = listFormats(&context);
  size_t width = 0;
  for (const FormatInfo &format : formats)
    width = std::max(width, format.name.size());
  for (const FormatInfo &format : formats)
    llvm::outs() << llvm::left_justify(format.name, width)
                 << llvm::formatv("  {0,5:F2} bytes per element; {1}\n",
                                  format.bytes, format.summary);
}

/// Lists kinds of values, then statistics, each with a description.
static void listStatistics() {
  llvm::outs() << "kinds of values; * means all kinds\n";
  for (const WatchedKindInfo &kind : getWatchedKinds())
    llvm::outs() << "  " << llvm::left_justify(kind.name, 23) << kind.summary
                 << "\n";
  llvm::outs() << "\n"
                  "statistics of n elements x; (FORMAT) is the value's format, "
                  "or the one to which it is rounded\n";
  for (const StatisticInfo &statistic : getStatistics()) {
    std::string name = statistic.name.str();
    if (statistic.hasFormat)
      name += "(FORMAT)";
    llvm::outs() << "  " << llvm::left_justify(name, 19) << statistic.summary;
    if (!statistic.formula.empty())
      llvm::outs() << ": " << statistic.formula;
    if (!statistic.unit.empty())
      llvm::outs() << " [" << statistic.unit << "]";
    llvm::outs() << "\n";
  }
}

/// Lists alarm rules with what they detect, watch and advise.
static void listAlarms() {
  MLIRContext context;
  for (const ::binade::AlarmRule &rule : getShippedAlarms(&context)) {
    llvm::outs() << llvm::left_justify(rule.name, 19) << rule.about << "\n";
    auto print = [](StringRef what, const Twine &text) {
      llvm::outs() << "  " << llvm::left_justify(what, 10) << text << "\n";
    };
    print("watches", readsOnlyMetrics(rule)
                         ? "metrics only; on by default, unless --alarms off"
                         : "'" + llvm::join(rule.watch, "', '") + "'");
    if (!rule.watchByDefault.empty())
      print("default", "'" + llvm::join(rule.watchByDefault, "', '") +
                           "', unless --alarms off");
    print("value", rule.value);
    print("when", rule.when);
    print("remedy", rule.remedy);
  }
}

static void listPhases() {
  for (const PhaseDescription &phase : getPhases())
    llvm::outs() << llvm::formatv("{0,-12} {1}\n", phase.name, phase.summary);
}

/// Lists named schedules with their parameters and expressions.
static void listSchedules() {
  auto print = [](StringRef what, const Twine &text) {
    llvm::outs() << "  " << llvm::left_justify(what, 12) << text << "\n";
  };
  for (const ::binade::NamedSchedule &schedule :
       ::binade::listNamedSchedules()) {
    llvm::outs() << llvm::left_justify(schedule.name, 12) << schedule.summary
                 << "\n";
    print("parameters",
          schedule.parameters.empty() ? "none" : schedule.parameters);
    print("lr", schedule.expression);
    print("--warmup W", schedule.withWarmup);
    print("equals", schedule.equals);
  }
}

static void listTargets() {
  for (const TargetKind &kind : getTargetKinds())
    kind.print(llvm::outs());
}

void addList(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "list",
      "List policies, optimizers, formats, statistics, targets and others");
  command->footer("Examples:\n"
                  "  binade list policies\n"
                  "  binade list optimizers\n"
                  "  binade list schedules\n"
                  "  binade list formats\n"
                  "  binade list stats\n"
                  "  binade list alarms\n"
                  "  binade list phases\n"
                  "  binade list targets\n"
                  "  binade list devices");
  auto what = std::make_shared<std::string>();
  command->add_option("what", *what, "What to list, one of these words")
      ->required()
      ->check(oneOf({"policies", "optimizers", "schedules", "formats", "stats",
                     "alarms", "phases", "targets", "devices"}));
  command->callback([&run, what] {
    run = [what] {
      if (*what == "policies")
        listPolicies();
      else if (*what == "optimizers")
        listOptimizers();
      else if (*what == "schedules")
        listSchedules();
      else if (*what == "formats")
        listFormats();
      else if (*what == "stats")
        listStatistics();
      else if (*what == "alarms")
        listAlarms();
      else if (*what == "phases")
        listPhases();
      else if (*what == "targets")
        listTargets();
      else
        ::binade::printDevices(std::cout, ::binade::listDevices());
      return int(::binade::ExitCode::Ok);
    };
  });
}
