//===- CommandLine.h - Helpers for command lines ----------------*- C++ -*-===//

#ifndef BINADE_COMMANDLINE_COMMANDLINE_H
#define BINADE_COMMANDLINE_COMMANDLINE_H

#include "binade/Container/Error.h"
#include "binade/Container/Numbers.h"
#include "binade/Container/Printable.h"
#include "binade/Runtime/Devices.h"
#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>

namespace binade {

/// Accepts a decimal integer of [low, high].
template <typename Int>
CLI::Validator integer(Int low = 0,
                       Int high = std::numeric_limits<Int>::max()) {
  auto check = [low, high](const std::string &text) -> std::string {
    Int value;
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() &&
        value >= low && value <= high)
      return "";
    std::string expected = high == std::numeric_limits<Int>::max()
                               ? " or more"
                               : " to " + std::to_string(high);
    return "expected an integer, " + std::to_string(low) + expected + ", got " +
           quote(text);
  };
  return CLI::Validator(check, "");
}

/// Accepts a finite number in `range`. By default the range is checked later.
CLI::Validator number(NumberRange range = {});

/// Accepts one of `names`.
CLI::Validator oneOf(std::vector<std::string> names);

/// Adds a subcommand. Calling CLI11's own function instead would compile all of
/// CLI11 in every file that does so, which takes seconds.
CLI::App *addCommand(CLI::App &app, std::string name, std::string help);

/// Adds --diag, the format of errors and warnings.
void addDiagnosticFormat(CLI::App &app, DiagnosticFormat &format);

/// Adds --device.
void addDevice(CLI::App &app, DeviceChoice &device);

/// Returns printable names, separated by commas.
std::string joinPrintable(const std::vector<std::string> &names);

/// Returns an error of the command line (exit code 2).
Error usageError(std::string message);

/// Prints an error of CLI11 as a Binade error and returns the exit code. The
/// name of `app` has to be the name of the program.
int reportUsage(const CLI::App &app, const CLI::ParseError &error, int argc,
                char **argv);

} // namespace binade

#endif // BINADE_COMMANDLINE_COMMANDLINE_H
