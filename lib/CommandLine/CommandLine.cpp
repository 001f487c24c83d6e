//===- CommandLine.cpp - Helpers for command lines ------------------------===//

#include "binade/CommandLine/CommandLine.h"
#include "OptionText.h"
#include "binade/CommandLine/DiagnosticArgument.h"
#include "binade/Container/Error.h"
#include "binade/Container/Suggest.h"
#include <algorithm>
#include <iostream>

using namespace binade;

CLI::Validator binade::number(NumberRange range) {
  auto check = [range](const std::string &text) -> std::string {
    char *end;
    double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end)
      return "expected a number, got " + quote(text);
    return range.explainViolation("the number", value);
  };
  return CLI::Validator(check, "");
}

CLI::Validator binade::oneOf(std::vector<std::string> names) {
  std::string known;
  for (const std::string &name : names)
    known += (known.empty() ? "" : ", ") + name;
  auto check = [names, known](const std::string &text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end())
      return "";
    return "expected one of " + known + ", got " + quote(text) +
           suggest(text, names);
  };
  return CLI::Validator(check, "{" + known + "}");
}

Error binade::usageError(std::string message) {
  return {"binade", std::move(message), ExitCode::Usage};
}

CLI::App *binade::addCommand(CLI::App &app, std::string name,
                             std::string help) {
  return app.add_subcommand(std::move(name), std::move(help));
}

std::string binade::joinPrintable(const std::vector<std::string> &names) {
  std::string joined;
  for (const std::string &name : names)
    joined += (joined.empty() ? "" : ", ") + printable(name);
  return joined;
}

void binade::addDiagnosticFormat(CLI::App &app, DiagnosticFormat &format) {
  auto set = [&format](const std::string &text) {
    format = text == "json" ? DiagnosticFormat::Json : DiagnosticFormat::Text;
  };
  app.add_option_function<std::string>(
         "--diag", set,
         "Format of errors and warnings on standard error: text, or one JSON "
         "object per line")
      ->check(oneOf({"text", "json"}))
      ->default_str("text");
}

void binade::addDevice(CLI::App &app, DeviceChoice &device) {
  auto check = [](const std::string &text) -> std::string {
    if (DeviceChoice::parse(text))
      return "";
    return "expected auto, cpu, cuda or cuda:NUMBER, got " + quote(text);
  };
  auto set = [&device](const std::string &text) {
    device = *DeviceChoice::parse(text);
  };
  app.add_option_function<std::string>(
         "--device", set,
         "Device to run on, of those that 'binade list devices' prints; cuda "
         "is cuda:0; auto is the first GPU for which the bundle has kernels, "
         "or else the CPU")
      ->check(CLI::Validator(check, ""))
      ->type_name("auto|cpu|cuda[:N]")
      ->default_str("auto");
}

/// Returns the subcommand that was being parsed, or the program itself.
static const CLI::App &findCommand(const CLI::App &app) {
  std::vector<CLI::App *> parsed = app.get_subcommands();
  return parsed.empty() ? app : findCommand(*parsed.back());
}

/// Returns the full name of a subcommand, such as `binade policy check`.
static std::string getFullName(const CLI::App &command) {
  const CLI::App *parent = command.get_parent();
  return parent ? getFullName(*parent) + " " + command.get_name()
                : command.get_name();
}

/// Returns the message for an unknown subcommand `word`.
static std::string describeUnknown(const CLI::App &command,
                                   const std::string &word) {
  std::vector<std::string> names;
  for (const CLI::App *known : command.get_subcommands(nullptr))
    names.push_back(known->get_name());
  return "no command of '" + getFullName(command) + "' is called " +
         quote(word) + suggestCommand(word, names);
}

/// Returns the message for the first unknown option, or else for the first
/// unexpected argument. Options come first, because values may follow them.
static std::string describeExtras(const CLI::App &app) {
  std::vector<std::string> extras = app.remaining(true), options;
  auto extra = std::find_if(extras.begin(), extras.end(),
                            [](auto &word) { return word.starts_with("-"); });
  if (extra == extras.end())
    return "unexpected argument " + quote(extras.front());
  for (const CLI::Option *option : findCommand(app).get_options())
    for (const std::string &name : option->get_lnames())
      options.push_back("--" + name);
  return "no option is called " + quote(*extra) +
         suggestOption(extra->substr(0, extra->find('=')), options);
}

/// Whether there is an unknown option, which may be the misspelling of a
/// missing required one.
static bool hasUnknownOption(const CLI::App &app) {
  std::vector<std::string> extras = app.remaining(true);
  return std::any_of(extras.begin(), extras.end(),
                     [](auto &word) { return word.starts_with("-"); });
}

static constexpr std::string_view kConversion = "Could not convert: ";

/// Returns the option that a message of CLI11 begins with, or null.
static const CLI::Option *findOption(const CLI::App &command,
                                     std::string_view message) {
  if (message.starts_with(kConversion))
    message.remove_prefix(kConversion.size());
  std::string name(message.substr(0, message.find_first_of(": ")));
  return name.empty() ? nullptr : command.get_option_no_throw(name);
}

/// Returns the message of CLI11 in the words of Binade.
static std::string describe(const CLI::App &command,
                            const CLI::ParseError &error) {
  std::string message = error.what();
  const CLI::Option *option = findOption(command, message);
  auto hasCode = [&](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  if (hasCode(CLI::ExitCodes::RequiredError) &&
      message == "A subcommand is required")
    return "expected a command";
  if (!option)
    return message;
  std::string name = option->get_name();
  if (hasCode(CLI::ExitCodes::RequiredError) && option->get_positional())
    return describeOption(*option).value + " is required";
  if (hasCode(CLI::ExitCodes::ExcludesError))
    return name + " cannot be used with " +
           message.substr(message.rfind(' ') + 1);
  bool isMismatch = hasCode(CLI::ExitCodes::ArgumentMismatch);
  bool isFlag = option->get_items_expected_max() == 0;
  if (isFlag && (isMismatch || hasCode(CLI::ExitCodes::ConversionError)))
    return name + " takes no value";
  if (message.starts_with(kConversion))
    return name + ": expected a number, got " +
           quote(message.substr(message.find(" = ") + 3));
  if (!isMismatch)
    return message;
  return option->count() > 1
             ? name + " is given " + std::to_string(option->count()) +
                   " times, expected once"
             : name + " needs a value: " + option->get_type_name();
}

DiagnosticFormat binade::findDiagnosticFormat(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view word = argv[i];
        word == "--diag=json" || (word == "--diag" && i + 1 < argc &&
                                  std::string_view(argv[i + 1]) == "json"))
      return DiagnosticFormat::Json;
  return DiagnosticFormat::Text;
}

int binade::reportUsage(const CLI::App &app, const CLI::ParseError &error,
                        int argc, char **argv) {
  const CLI::App &command = findCommand(app);
  std::vector<std::string> extras = command.remaining();
  std::string message = describe(command, error);
  auto hasCode = [&](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  if (!command.get_subcommands(nullptr).empty() && !extras.empty())
    message = describeUnknown(command, extras.front());
  else if (hasCode(CLI::ExitCodes::ExtrasError) ||
           (hasCode(CLI::ExitCodes::RequiredError) && hasUnknownOption(app)))
    message = describeExtras(app);
  std::string help = getFullName(command);
  std::cerr << render(Error{"binade", printable(message, 1000), ExitCode::Usage}
                          .withNote("see '" + help + " --help'"),
                      findDiagnosticFormat(argc, argv))
            << "\n";
  return ExitCode::Usage;
}
