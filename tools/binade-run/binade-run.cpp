//===- binade-run.cpp - Training from a bundle, without a compiler --------===//

#include "Tune.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/Definition.h"
#include "binade/CommandLine/DiagnosticArgument.h"
#include "binade/CommandLine/HelpText.h"
#include "binade/CommandLine/Report.h"
#include "binade/CommandLine/ResumeCommand.h"
#include "binade/CommandLine/TrainArguments.h"
#include "binade/CommandLine/Version.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include <algorithm>
#include <filesystem>
#include <iostream>

using namespace binade;

namespace {
struct RunCommand {
  std::string bundle;
  SettingArguments settings;
  TrainArguments train;
  std::vector<std::string> alarms;
  std::string onAlarm;
  LoadOptions load;
  DiagnosticFormat format = DiagnosticFormat::Text;

  void add(CLI::App &app);
  void check(const CLI::App &app) const { requireRun(app); }
  Result<void> resume(const CLI::App &app,
                      const std::vector<std::string> &words) const {
    return resumeRecorded(app, {"binade-run"}, words);
  }
  Result<int> run();
};
} // namespace

void RunCommand::add(CLI::App &app) {
  app.add_option("model", bundle, "Bundle that 'binade compile' wrote")
      ->required()
      ->type_name("BUNDLE");
  app.add_flag_callback(
      "--list-devices",
      [] {
        printDevices(std::cout, listDevices());
        throw CLI::Success();
      },
      "Print the CPU and GPUs that bundles can run on, and exit");
  settings.add(app);
  app.add_option("--threads", load.threads,
                 "Threads of library calls such as matmuls; 0 for the number "
                 "in the bundle")
      ->check(integer<unsigned>(0, plan::kMaxThreads))
      ->capture_default_str();
  addDevice(app, load.device);
  addDiagnosticFormat(app, format);
  train.add(app);
  app.add_option("--alarms", alarms,
                 "Alarm rules of the bundle to check in addition to those that "
                 "are on by default: a name, or all; off checks no rules; by "
                 "default all rules that 'binade compile' stored in the bundle")
      ->type_name("all|off|NAME")
      ->allow_extra_args(false);
  app.add_option("--on-alarm", onAlarm,
                 "Reaction to an alarm: warn prints a warning; stop saves a "
                 "checkpoint after the step and ends with exit code 4; by "
                 "default what the bundle specifies")
      ->type_name("warn|stop");
  app.footer(
      "Trains as 'binade train' does, with the same options and output, but "
      "needs neither\n"
      "the compiler nor LLVM. 'binade-run tune' selects the fastest matmul "
      "algorithms of a\n"
      "GPU; see 'binade-run tune --help'.\n"
      "Examples:\n"
      "  binade-run step.bnd --data train.safetensors --steps 100 --out run\n"
      "  binade-run step.bnd --data train.safetensors --steps 100 --lr 3e-4 "
      "\\\n"
      "      --save-every 20 --resume survivor\n"
      "  binade-run --resume survivor --steps 200\n"
      "'binade-run help exit-codes' prints the exit codes.");
}

Result<int> RunCommand::run() {
  train.commandName = "binade-run";
  for (const Result<void> &complete : {settings.complete(), train.complete()})
    if (!complete)
      return complete.error();
  load.settings = settings.getSettings();
  load.notify = [](std::string_view text) {
    std::cerr << "binade: " << text << "\n";
  };
  Result<Program> program = Program::load(bundle, load);
  if (!program)
    return program.takeError();
  Result<AlarmSettings> chosen =
      chooseAlarms(program->getPlan().alarms, alarms, onAlarm);
  if (!chosen)
    return chosen.takeError();
  train.train.alarms = *std::move(chosen);
  std::string directory = std::filesystem::path(bundle).parent_path();
  return train.run(*program, bundle, directory.empty() ? "." : directory);
}

template <typename Command>
static int parseAndRun(CLI::App &app, int argc, char **argv) {
  addVersion(app);
  addDefinition(app);
  setHelpFormat(app);
  Command command;
  command.add(app);
  groupOptions(app);
  if (Result<void> done = command.resume(app, {argv + 1, argv + argc}); !done) {
    std::cerr << render(done.error(), findDiagnosticFormat(argc, argv)) << "\n";
    return done.error().exitCode;
  }
  try {
    app.parse(argc, argv);
    command.check(app);
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() == 0 ? app.exit(error)
                                      : reportUsage(app, error, argc, argv);
  }
  return ::binade::runCommand(app.get_name(), command.format, [&] {
    Result<int> code = command.run();
    if (code)
      return *code;
    std::cerr << render(code.error(), command.format) << "\n";
    return code.error().exitCode;
  });
}

/// Suggests `tune` if `word` is not a file and resembles it.
static std::string suggestTune(const std::string &word) {
  static const std::vector<std::string> names = {"tune"};
  std::error_code ignored;
  return std::filesystem::exists(word, ignored) ? ""
                                                : suggestCommand(word, names);
}

int main(int argc, char **argv) {
  reportCrashes("binade-run", argc, argv);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"help", "exit-codes"}) {
    printExitCodes(std::cout);
    return ExitCode::Ok;
  }
  // `help COMMAND` is `COMMAND --help`.
  static char help[] = "--help";
  if (!words.empty() && words.front() == "help") {
    std::rotate(argv + 1, argv + 2, argv + argc);
    argv[argc - 1] = help;
  }
  // Not a subcommand: `tune` needs none of the options that training requires.
  if (argc > 1 && std::string_view(argv[1]) == "tune") {
    CLI::App app("Selects the fastest matmul algorithms of a GPU.",
                 "binade-run tune");
    return parseAndRun<TuneCommand>(app, argc - 1, argv + 1);
  }
  if (!words.empty())
    if (std::string near = suggestTune(words.front()); !near.empty()) {
      std::cerr << render(usageError("no command and no file is called " +
                                     quote(words.front()) + near)
                              .withNote("see 'binade-run --help'"))
                << "\n";
      return ExitCode::Usage;
    }
  CLI::App app("Trains a compiled bundle.", "binade-run");
  return parseAndRun<RunCommand>(app, argc, argv);
}
