//===- binade.cpp - the driver --------------------------------------------===//

#include "Commands.h"
#include "ExitCode.h"
#include "OptionFile.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/DiagnosticArgument.h"
#include "binade/CommandLine/Report.h"
#include "binade/CommandLine/ResumeCommand.h"
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
  std::string word = argv[1], name = "binade-" + word;
  argv[1] = name.data(); // The program's own name, which a run records.
  std::error_code ignored;
  auto here = std::filesystem::read_symlink("/proc/self/exe", ignored);
  std::string sibling = (here.parent_path() / name).string();
  execv(sibling.c_str(), argv + 1);
  execvp(name.c_str(), argv + 1);
  std::vector<std::string> known;
  for (const CLI::App *command : app.get_subcommands(nullptr))
    known.push_back(command->get_name());
  std::cerr << render(Error{"binade",
                            "no command is called " + quote(word) +
                                suggest(word, known),
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
  CLI::App app("Compiles and trains neural networks in low precision, and "
               "explains the format of each value.",
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
      "  binade train model.onnx --data train.safetensors --steps 100 --out "
      "run\n"
      "  binade compile --help\n"
      "  binade eval --help\n"
      "  binade why-nan --help\n"
      "More commands, each a program 'binade-NAME' in the same directory or on "
      "PATH:\n"
      "  bisect   find the decisions of a policy that break a run\n"
      "  eval     run a function of a module on given tensors\n"
      "  replay   recompute a step of a run, bit by bit\n"
      "  run      train from a bundle without a compiler\n"
      "  runs     list and compare runs\n"
      "  search   search for the best policy within a memory or time budget\n"
      "  shadow   rank the ops of a step by their numerical error\n"
      "  sweep    train under several policies and compare them\n"
      "  why-nan  find the first value of a step that is not finite\n"
      "docs/ExitCodes.md lists the exit codes.");

  auto isOwn = [&](const CLI::App *command) {
    return command->get_name() == argv[1];
  };
  bool isWord = argc > 1 && argv[1][0] != '-';
  if (isWord && std::ranges::none_of(app.get_subcommands(nullptr), isOwn))
    return runExternal(app, argv);
  if (isWord)
    if (int code = expandOptionFile(app, *app.get_subcommand(argv[1]),
                                    {argv + 2, argv + argc},
                                    findDiagnosticFormat(argc, argv)))
      return code;
  if (isWord && std::string_view(argv[1]) == "train")
    if (Result<void> done =
            resumeRecorded(*app.get_subcommand("train"), {"binade", "train"},
                           {argv + 2, argv + argc});
        !done) {
      std::cerr << render(done.error(), findDiagnosticFormat(argc, argv))
                << "\n";
      return done.error().exitCode;
    }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() == 0 ? app.exit(error)
                                      : reportUsage(app, error, argc, argv);
  }
  return runCommand("binade", findDiagnosticFormat(argc, argv),
                    [&] { return getExitCode(run()); });
}
