//===- binade.cpp - the driver --------------------------------------------===//

#include "Commands.h"
#include "binade/Container/Error.h"
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <unistd.h>

using binade::ExitCode;

/// Runs `binade-<name>` from this program's directory or from PATH, as git
/// does.
static int runExternal(int argc, char **argv) {
  std::string name = "binade-" + std::string(argv[1]);
  std::error_code ignored;
  auto here = std::filesystem::read_symlink("/proc/self/exe", ignored);
  std::string beside = (here.parent_path() / name).string();
  execv(beside.c_str(), argv + 1);
  execvp(name.c_str(), argv + 1);
  std::cerr << "binade: error: no command '" << argv[1]
            << "'; see 'binade --help'\n";
  return ExitCode::Usage;
}

int main(int argc, char **argv) {
  CLI::App app("Compiles training graphs, and says why each number has its "
               "format.");
  app.set_version_flag("--version", "binade " BINADE_VERSION);
  app.require_subcommand(1);
  std::function<int()> run;
  for (auto *add : {addImport, addCompile, addTrain, addInspect, addList})
    add(app, run);
  app.footer("Every 'binade-NAME' on PATH is a command too: binade eval.\n"
             "Exit codes: docs/ExitCodes.md.");

  auto isOwn = [&](const CLI::App *command) {
    return command->get_name() == argv[1];
  };
  bool isWord = argc > 1 && argv[1][0] != '-';
  if (isWord && std::ranges::none_of(app.get_subcommands(nullptr), isOwn))
    return runExternal(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? ExitCode::Ok : ExitCode::Usage;
  }
  return run();
}
