//===- OptionFile.h - Options of a command in a YAML file -------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_OPTIONFILE_H
#define BINADE_TOOLS_BINADE_OPTIONFILE_H

#include "binade/Container/Error.h"
#include <CLI/CLI.hpp>

/// If the first argument of `command`, a subcommand of `app` that takes a
/// model, is a YAML file, replaces this process by one whose command line has
/// the options of this file. Options of the command line replace those of the
/// file; options of the file that only `binade train` has are ignored. `words`
/// are the arguments of `command`. Returns the exit code if the file is
/// invalid, and 0 if the command is complete already.
int expandOptionFile(const CLI::App &app, const CLI::App &command,
                     const std::vector<std::string> &words,
                     ::binade::DiagnosticFormat format);

/// Returns the text of a file with the options that `command` parsed, without
/// those that concern a single command, such as --out.
std::string printOptionFile(const CLI::App &command);

#endif // BINADE_TOOLS_BINADE_OPTIONFILE_H
