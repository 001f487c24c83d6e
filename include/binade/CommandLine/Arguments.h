//===- Arguments.h - Words of a command line --------------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_ARGUMENTS_H
#define BINADE_COMMANDLINE_ARGUMENTS_H

#include "binade/Container/Error.h"
#include <CLI/CLI.hpp>

namespace binade {

/// An option with its values, or a positional argument, whose option is null.
struct Argument {
  const CLI::Option *option;
  std::vector<std::string> words;  ///< As given on the command line.
  std::vector<std::string> values; ///< Without the name of the option.

  bool isCalled(std::string_view name) const {
    return option && option->check_name(std::string(name));
  }
};

/// Assigns the words after the name of `command` to its options. Returns
/// nothing if an option is unknown or lacks its value.
std::optional<std::vector<Argument>>
divideArguments(const CLI::App &command, const std::vector<std::string> &words);

/// Whether a command that repeats or resumes a run does not take over the
/// option: where the run is written, when it ends, and what else is written.
bool concernsOneCommand(const CLI::Option &option);

/// Whether the options cannot be combined, such as --steps and --epochs.
bool excludes(const CLI::Option &one, const CLI::Option &other);

/// Joins words as a shell reads them.
std::string joinWords(const std::vector<std::string> &words);

/// Replaces this process by this program with other arguments. `words` begin
/// with the name of the program. Returns only if that fails.
Error replaceProcess(std::vector<std::string> words);

} // namespace binade

#endif // BINADE_COMMANDLINE_ARGUMENTS_H
