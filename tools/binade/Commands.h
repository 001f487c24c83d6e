//===- Commands.h - the subcommands of the driver ---------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_COMMANDS_H
#define BINADE_TOOLS_BINADE_COMMANDS_H

#include <CLI/CLI.hpp>
#include <functional>

/// Each function adds a subcommand to `app`. If the command line selects it,
/// `run` is set to the command, which returns the exit code.
using Run = std::function<int()>;
void addAlarms(CLI::App &app, Run &run);
void addCheckpoint(CLI::App &app, Run &run);
void addImport(CLI::App &app, Run &run);
void addCompile(CLI::App &app, Run &run);
void addConvert(CLI::App &app, Run &run);
void addCosts(CLI::App &app, Run &run);
void addTrace(CLI::App &app, Run &run);
void addTrain(CLI::App &app, Run &run);
void addEvaluate(CLI::App &app, Run &run);
void addExplain(CLI::App &app, Run &run);
void addExport(CLI::App &app, Run &run);
void addDiff(CLI::App &app, Run &run);
void addFit(CLI::App &app, Run &run);
void addInspect(CLI::App &app, Run &run);
void addList(CLI::App &app, Run &run);
void addPolicy(CLI::App &app, Run &run);
void addVerify(CLI::App &app, Run &run);

#endif // BINADE_TOOLS_BINADE_COMMANDS_H
