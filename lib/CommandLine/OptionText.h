//===- OptionText.h - What help says of an option ---------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_OPTIONTEXT_H
#define BINADE_COMMANDLINE_OPTIONTEXT_H

#include <CLI/CLI.hpp>

namespace binade {

struct OptionText {
  std::vector<std::string> names;   ///< `-o`, `--output`; empty: positional.
  std::string value;                ///< What the value is; empty: a flag.
  std::vector<std::string> choices; ///< The only values allowed, if any.
  bool repeats = false;
};

/// Returns the position of a group in help; the largest number for others.
std::size_t rankGroup(std::string_view title);

/// Returns what help, completion and man pages say of an option.
OptionText describeOption(const CLI::Option &option);

} // namespace binade

#endif // BINADE_COMMANDLINE_OPTIONTEXT_H
