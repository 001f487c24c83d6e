//===- binade.cpp - the driver --------------------------------------------===//

#include "Commands.h"
#include "ExitCode.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/DiagnosticArgument.h"
#include "binade/Container/Error.h"
#include "binade/Container/Suggest.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <unistd.h>

using namespace binade;

/// Runs `binade-<name>` from this program's directory or from PATH, as git
/// does.
static int runExternal(const CLI::App &app, char **argv) {
  std::string name = "binade-" + std::string(argv[1]);
  std::error_code ignored;
  auto here = std::filesystem::read_symlink("/proc/self/exe", ignored);
  std::string sibling = (here.parent_path() / name).string();
  execv(sibling.c_str(), argv + 1);
  execvp(name.c_str(), argv + 1);
  std::vector<std::string> known;
  for (const CLI::App *command : app.get_subcommands(nullptr))
    known.push_back(command->get_name());
  std::cerr << render(Error{"binade",
                            "no command is called " + quote(argv[1]) +
                                suggest(argv[1], known),
                            ExitCode::Usage}
                          .withNote("see 'binade --help'"))
            << "\n";
  return ExitCode::Usage;
}

int main(int argc, char **argv) {
  reportCrashes("binade", argc, argv);
  // Exceeding the file size limit is reported as a write error. A closed output
  // pipe ends the process silently, except in `train`, which continues.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app("Compiles training graphs, and says why each number has its "
               "format.",
               "binade");
  app.set_version_flag("--version", "binade " BINADE_VERSION);
  app.require_subcommand(1);
  std::function<int()> run;
  for (auto *add : {addImport, addCompile, addConvert, addTrain, addExport,
                    addCheckpoint, addAlarms, addFit, addInspect, addExplain,
                    addDiff, addPolicy, addCosts, addVerify, addTrace, addList})
    add(app, run);
  app.footer(
      "Examples:\n"
      "  binade train model.onnx --data train.safetensors --steps 100 "
      "--out run\n"
      "  binade compile --help\n"
      "  binade eval --help\n"
      "  binade why-nan --help\n"
      "Every 'binade-NAME' on PATH is a command too, as bisect, eval, replay, "
      "runs, search, shadow, sweep and why-nan are.\n"
      "Exit codes: docs/ExitCodes.md.");

  auto isOwn = [&](const CLI::App *command) {
    return command->get_name() == argv[1];
  };
  bool isWord = argc > 1 && argv[1][0] != '-';
  if (isWord && std::ranges::none_of(app.get_subcommands(nullptr), isOwn))
    return runExternal(app, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() == 0 ? app.exit(error)
                                      : reportUsage(app, error, argc, argv);
  }
  return runCommand("binade", findDiagnosticFormat(argc, argv),
                    [&] { return getExitCode(run()); });
}
