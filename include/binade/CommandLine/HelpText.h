//===- HelpText.h - Texts of help -------------------------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_HELPTEXT_H
#define BINADE_COMMANDLINE_HELPTEXT_H

#include <iosfwd>
#include <string_view>

namespace CLI {
class App;
} // namespace CLI

namespace binade {

/// Returns the first sentence of a description, without its period.
std::string_view getSummary(std::string_view description);

/// Prints an entry of a list: `name` after two blanks, and `text` from `column`
/// on, in lines of at most 80 characters. A longer name has its own line.
void printEntry(std::ostream &out, std::string_view name, std::string_view text,
                std::size_t column);

/// Prints text in lines of at most 80 characters.
void printParagraph(std::ostream &out, std::string_view text);

/// Prints the table of docs/ExitCodes.md, which is compiled in.
void printExitCodes(std::ostream &out);

/// Makes the help of `app`, and of the subcommands that are added after this
/// call, list options in groups (`groupOptions`), in lines of at most 80
/// characters.
void setHelpFormat(CLI::App &app);

/// Assigns the options of `app` and its subcommands to groups of help, in
/// commands with so many options that groups help.
void groupOptions(CLI::App &app);

} // namespace binade

#endif // BINADE_COMMANDLINE_HELPTEXT_H
