//===- HelpFormat.cpp - The help of a command -----------------------------===//

#include "OptionText.h"
#include "binade/CommandLine/HelpText.h"
#include <algorithm>
#include <sstream>

using namespace binade;

static std::string join(const std::vector<std::string> &words,
                        std::string_view separator) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

namespace {
class HelpFormat : public CLI::Formatter {
public:
  std::string make_help(const CLI::App *app, std::string name,
                        CLI::AppFormatMode mode) const override;

private:
  static constexpr std::size_t kColumn = 26;

  static void printOption(std::ostream &out, const CLI::Option &option);
  static void printCommands(std::ostream &out, const CLI::App &app);
};
} // namespace

/// Returns what follows the description: what is required, allowed and default.
static std::string describeLimits(const CLI::Option &option,
                                  const OptionText &text, bool listsChoices) {
  std::vector<std::string> parts;
  if (option.get_required() && !text.names.empty())
    parts.push_back("required");
  if (listsChoices)
    parts.push_back("one of " + join(text.choices, ", "));
  if (text.repeats && !text.names.empty())
    parts.push_back("repeatable");
  if (std::string value = option.get_default_str(); !value.empty())
    parts.push_back("default: " + value);
  return parts.empty() ? "" : " (" + join(parts, "; ") + ")";
}

void HelpFormat::printOption(std::ostream &out, const CLI::Option &option) {
  constexpr std::size_t kMaxChoices = 40;
  OptionText text = describeOption(option);
  std::string choices = join(text.choices, "|");
  bool showsChoices = !choices.empty() && choices.size() <= kMaxChoices;
  std::string value = showsChoices ? choices : text.value;
  std::string name = join(text.names, ", ");
  if (!value.empty())
    name += (name.empty() ? "" : " ") + value;
  printEntry(
      out, name,
      option.get_description() +
          describeLimits(option, text, !choices.empty() && !showsChoices),
      kColumn);
}

void HelpFormat::printCommands(std::ostream &out, const CLI::App &app) {
  std::vector<const CLI::App *> commands = app.get_subcommands(nullptr);
  if (commands.empty())
    return;
  out << "\nCommands:\n";
  for (const CLI::App *command : commands)
    printEntry(out, command->get_name(), getSummary(command->get_description()),
               /*column=*/14);
}

std::string HelpFormat::make_help(const CLI::App *app, std::string name,
                                  CLI::AppFormatMode) const {
  std::ostringstream out, arguments;
  printParagraph(out, app->get_description());
  out << "\nUsage: " << name << " [OPTIONS]";
  std::vector<std::pair<std::string, std::vector<const CLI::Option *>>> groups;
  for (const CLI::Option *option : app->get_options()) {
    if (option->get_group().empty())
      continue;
    if (option->get_positional()) {
      OptionText text = describeOption(*option);
      std::string shown = text.value + (text.repeats ? "..." : "");
      out << " " << (option->get_required() ? shown : "[" + shown + "]");
      printOption(arguments, *option);
      continue;
    }
    auto group = std::ranges::find(
        groups, option->get_group(),
        &std::pair<std::string, std::vector<const CLI::Option *>>::first);
    if (group == groups.end())
      group = groups.insert(groups.end(), {option->get_group(), {}});
    group->second.push_back(option);
  }
  if (!app->get_subcommands(nullptr).empty())
    out << " COMMAND";
  out << "\n";
  if (!arguments.str().empty())
    out << "\nArguments:\n" << arguments.str();
  printCommands(out, *app);
  // CLI11 puts options without a group, among them --help, into "Options".
  std::ranges::stable_sort(groups, {},
                           [](auto &group) { return rankGroup(group.first); });
  for (const auto &[title, options] : groups) {
    bool isRest = title == "Options" && groups.size() > 1;
    out << "\n" << (isRest ? "Other options" : title) << ":\n";
    for (const CLI::Option *option : options)
      printOption(out, *option);
  }
  if (std::string footer = app->get_footer(); !footer.empty())
    out << "\n" << footer << "\n";
  return out.str();
}

void binade::setHelpFormat(CLI::App &app) {
  app.formatter(std::make_shared<HelpFormat>());
}
