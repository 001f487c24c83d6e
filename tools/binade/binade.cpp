//===- binade.cpp - the driver --------------------------------------------===//

#include "Commands.h"
#include "ExitCode.h"
#include "OptionFile.h"
#include "Overview.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/Definition.h"
#include "binade/CommandLine/DiagnosticArgument.h"
#include "binade/CommandLine/HelpText.h"
#include "binade/CommandLine/Report.h"
#include "binade/CommandLine/ResumeCommand.h"
#include "binade/CommandLine/Version.h"
#include "binade/Container/Error.h"
#include "binade/Container/Suggest.h"
#include "llvm/Config/llvm-config.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <unistd.h>

using namespace binade;

/// Reports a command that does not exist, and returns the exit code.
static int reportUnknown(const CLI::App &app, const std::string &word) {
  std::vector<std::string> known;
  for (const CLI::App *command : app.get_subcommands(nullptr))
    known.push_back(command->get_name());
  Error error = {"binade",
                 "no command is called " + quote(word) +
                     suggestCommand(word, known),
                 ExitCode::Usage};
  if (isProgram(word))
    error.message = "'binade " + word + "' needs the program 'binade-" + word +
                    "', which is neither in the directory of this program "
                    "nor on PATH";
  std::cerr << render(std::move(error).withNote("see 'binade --help'")) << "\n";
  return ExitCode::Usage;
}

/// Runs `binade-<name>` from this program's directory or from PATH, as git
/// does. `words` are the name and the arguments.
static int runExternal(const CLI::App &app, std::vector<std::string> words) {
  std::string word = words.front(), name = "binade-" + word;
  words.front() = name; // The program's own name, which a run records.
  std::vector<char *> pointers;
  for (std::string &argument : words)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::error_code ignored;
  auto here = std::filesystem::read_symlink("/proc/self/exe", ignored);
  std::string sibling = (here.parent_path() / name).string();
  execv(sibling.c_str(), pointers.data());
  execvp(name.c_str(), pointers.data());
  return reportUnknown(app, word);
}

/// Adds `binade help`, which `expandHelp` replaces before parsing.
static void addHelp(CLI::App &app) {
  addCommand(app, "help", "Print the help of a command, or the exit codes");
}

/// Replaces `help COMMAND...` by `COMMAND... --help`.
static std::vector<std::string> expandHelp(std::vector<std::string> words) {
  if (words.empty() || words.front() != "help")
    return words;
  words.erase(words.begin());
  // `binade help --help` is the help of `binade`, too.
  if (words.empty() || words.back() != "--help")
    words.push_back("--help");
  return words;
}

int main(int argc, char **argv) {
  reportCrashes("binade", argc, argv);
  // Exceeding the file size limit is reported as a write error. A closed output
  // pipe ends the process silently, except in `train`, which continues.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app("Compiles and trains neural networks in low precision, and "
               "explains the\nformat of each value.",
               "binade");
  addVersion(app, "LLVM " LLVM_VERSION_STRING "\n");
  addDefinition(app);
  setHelpFormat(app);
  app.require_subcommand(1);
  std::function<int()> run;
  for (auto *add :
       {addImport, addCompile, addConvert, addTrain, addEvaluate, addExport,
        addCheckpoint, addAlarms, addFit, addInspect, addExplain, addDiff,
        addPolicy, addCosts, addVerify, addTrace, addList})
    add(app, run);
  addHelp(app);
  groupOptions(app);
  addPrograms(app);
  app.footer(
      "Examples:\n"
      "  binade train model.onnx --data train.safetensors --steps 100 --out "
      "run\n"
      "  binade help train\n"
      "  binade why-nan --help\n"
      "'binade --version' prints the versions of Binade and its libraries.\n"
      "'binade help exit-codes' prints the exit codes.\n"
      "Other programs called 'binade-NAME' on PATH are commands, too.");

  std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"help", "exit-codes"}) {
    printExitCodes(std::cout);
    return ExitCode::Ok;
  }
  words = expandHelp(std::move(words));
  auto isCalled = [&](const CLI::App *command) {
    return command->get_name() == words.front();
  };
  bool isWord = !words.empty() && !words.front().starts_with("-");
  if (isWord && (isProgram(words.front()) ||
                 std::ranges::none_of(app.get_subcommands(nullptr), isCalled)))
    return runExternal(app, words);
  if (isWord)
    if (int code = expandOptionFile(app, *app.get_subcommand(words.front()),
                                    {words.begin() + 1, words.end()},
                                    findDiagnosticFormat(argc, argv)))
      return code;
  if (isWord && words.front() == "train")
    if (Result<void> done =
            resumeRecorded(*app.get_subcommand("train"), {"binade", "train"},
                           {words.begin() + 1, words.end()});
        !done) {
      std::cerr << render(done.error(), findDiagnosticFormat(argc, argv))
                << "\n";
      return done.error().exitCode;
    }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() == 0 ? app.exit(error)
                                      : reportUsage(app, error, argc, argv);
  }
  return runCommand("binade", findDiagnosticFormat(argc, argv),
                    [&] { return getExitCode(run()); });
}
