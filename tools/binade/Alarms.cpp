//===- Alarms.cpp - binade alarms, and the alarms of a run ----------------===//

#include "Alarms.h"
#include "Commands.h"
#include "Diagnostics.h"
#include "binade/Container/Printable.h"
#include "binade/Precision/Policy.h"
#include <iostream>

using namespace mlir::binade;
using ::binade::Alarm;
using ::binade::AlarmSettings;
using ::binade::ExitCode;
using ::binade::OnAlarm;
using ::binade::Result;

CLI::Option *addAlarmRequests(CLI::App &command,
                              std::vector<std::string> &words) {
  return command
      .add_option("--alarms", words,
                  "Alarm rules to check in addition to those that are on by "
                  "default: a name that 'binade list alarms' prints, a .yaml "
                  "file of rules, or all; off checks no rules")
      ->type_name("all|off|NAME|FILE.yaml")
      ->allow_extra_args(false);
}

/// Returns the alarm rules that `words` request, or the exit code after an
/// error was reported.
static std::variant<AlarmRules, int>
choose(const std::vector<std::string> &words, const OutputArguments &output) {
  mlir::MLIRContext context;
  Diagnostics diagnostics(context, "--alarms", output.format);
  if (Result<void> legal = checkAlarmRequests(words, &context); !legal)
    return diagnostics.fail(legal.error());
  CompileOptions options;
  options.alarms = words;
  mlir::FailureOr<AlarmRequests> found =
      findAlarmRequests(options, {}, &context);
  if (failed(found))
    return int(ExitCode::Rejected);
  mlir::FailureOr<AlarmSettings> settings = chooseAlarms(*found, &context);
  if (failed(settings))
    return int(ExitCode::Rejected);
  return std::move(settings->rules);
}

void AlarmArguments::add(CLI::App &command) {
  addAlarmRequests(command, words);
  command
      .add_option("--on-alarm", onAlarm,
                  "Reaction to an alarm: warn prints a warning; stop saves a "
                  "checkpoint after the step and ends with exit code 4; "
                  "switch:POLICY continues with another policy from the next "
                  "step on; by default what the policy specifies, or else warn")
      ->type_name("warn|stop|switch:POLICY");
}

Result<void> AlarmArguments::complete(CompileOptions &step) const {
  mlir::MLIRContext context;
  if (Result<void> legal = checkAlarmRequests(words, &context); !legal)
    return legal;
  AlarmSettings said;
  if (!onAlarm.empty() && !said.setAction(onAlarm))
    return usageError("--on-alarm expects warn, stop or switch:POLICY, got " +
                      ::binade::quote(onAlarm));
  if (said.action == OnAlarm::Switch)
    if (Result<void> known = checkPolicyName(said.policy); !known)
      return known;
  bool isOff = words == std::vector<std::string>{"off"};
  if (isOff && said.action != OnAlarm::Warn)
    return usageError("--on-alarm " + onAlarm +
                      " needs alarms, which --alarms off leaves out");
  step.alarms = words;
  step.onAlarm = onAlarm;
  return {};
}

std::string AlarmArguments::findNextPolicy(const CompileOptions &step) const {
  mlir::MLIRContext context;
  context.getOrLoadDialect<BinadeDialect>();
  mlir::ScopedDiagnosticHandler silent(&context, [](mlir::Diagnostic &) {});
  mlir::FailureOr<Policy> policy = loadPolicy(step.policy, &context);
  if (failed(policy))
    return {}; // Compilation reports the error.
  mlir::FailureOr<AlarmRequests> found =
      findAlarmRequests(step, policy->alarms, &context);
  AlarmSettings settings;
  if (failed(found) || !found->action ||
      !settings.setAction(found->action->text))
    return {};
  return settings.policy;
}

std::variant<AlarmSettings, int>
AlarmArguments::chooseOf(const AlarmSettings &known,
                         const OutputArguments &output) const {
  AlarmSettings offered = known;
  if (!words.empty()) {
    auto rules = choose(words, output);
    if (auto *code = std::get_if<int>(&rules))
      return *code;
    offered.rules = std::get<AlarmRules>(std::move(rules));
  }
  Result<AlarmSettings> chosen =
      ::binade::chooseAlarms(offered, /*words=*/{}, onAlarm);
  if (chosen)
    return *std::move(chosen);
  std::cerr << render(chosen.error(), output.format) << "\n";
  return chosen.error().exitCode;
}

std::optional<::binade::Manifest> findNewestManifest(const std::string &run) {
  auto found = ::binade::listCheckpoints(run);
  if (!found)
    return std::nullopt; // Training reports the error.
  for (auto entry = found->rbegin(); entry != found->rend(); ++entry) {
    Result<::binade::Manifest> manifest = ::binade::readManifest(entry->second);
    if (manifest && openShards(entry->second, *manifest))
      return *std::move(manifest);
  }
  return std::nullopt;
}

bool hasSwitched(const std::string &run, const std::string &policy) {
  mlir::MLIRContext context;
  context.getOrLoadDialect<BinadeDialect>();
  mlir::ScopedDiagnosticHandler silent(&context, [](mlir::Diagnostic &) {});
  mlir::FailureOr<Policy> loaded = loadPolicy(policy, &context);
  std::optional<::binade::Manifest> newest = findNewestManifest(run);
  return succeeded(loaded) && newest &&
         newest->run["policy hash"] == loaded->source.getHash().getValue();
}

//===----------------------------------------------------------------------===//
// binade alarms
//===----------------------------------------------------------------------===//

namespace {
struct AlarmsCommand {
  std::string run;
  std::vector<std::string> words;
  OutputArguments output;

  int show() const {
    auto rules = choose(words, output);
    if (auto *code = std::get_if<int>(&rules))
      return *code;
    Result<std::vector<Alarm>> alarms =
        findAlarms(run, std::get<AlarmRules>(rules));
    if (!alarms) {
      std::cerr << render(alarms.error(), output.format) << "\n";
      return alarms.error().exitCode;
    }
    for (const Alarm &alarm : *alarms)
      for (const std::string &line : describe(alarm))
        std::cout << line << "\n";
    if (alarms->empty())
      std::cout << "no alarm\n";
    return ExitCode::Ok;
  }
};
} // namespace

void addAlarms(CLI::App &app, Run &run) {
  CLI::App *command = ::binade::addCommand(
      app, "alarms", "Evaluate alarm rules on a recorded run");
  command->footer("Metrics such as the loss are always recorded. A rule that "
                  "needs statistics can be\n"
                  "evaluated only if the run recorded them in stats.jsonl, by "
                  "'binade train --stats'\n"
                  "or --alarms.\n"
                  "Examples:\n"
                  "  binade alarms run\n"
                  "  binade alarms run --alarms all --alarms mine.yaml");
  auto self = std::make_shared<AlarmsCommand>();
  command->add_option("run", self->run, "Directory of a run")
      ->required()
      ->type_name("RUN");
  addAlarmRequests(*command, self->words);
  self->output.add(*command);
  command->callback([&run, self] { run = [self] { return self->show(); }; });
}
