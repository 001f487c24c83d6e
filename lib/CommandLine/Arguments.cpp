//===- Arguments.cpp - Words of a command line ----------------------------===//

#include "binade/CommandLine/Arguments.h"
#include <algorithm>
#include <cerrno>
#include <unistd.h>

using namespace binade;

static bool isOption(const std::string &word) {
  return word.size() > 1 && word.starts_with("-");
}

std::optional<std::vector<Argument>>
binade::divideArguments(const CLI::App &command,
                        const std::vector<std::string> &words) {
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!isOption(words[i])) {
      arguments.push_back({nullptr, {words[i]}, {words[i]}});
      continue;
    }
    std::size_t equals = words[i].find('=');
    const CLI::Option *option =
        command.get_option_no_throw(words[i].substr(0, equals));
    if (!option)
      return std::nullopt;
    Argument &added = arguments.emplace_back(Argument{option, {words[i]}, {}});
    if (option->get_items_expected_max() == 0)
      continue;
    if (equals != std::string::npos) {
      added.values = {words[i].substr(equals + 1)};
      continue;
    }
    if (i + 1 == words.size())
      return std::nullopt;
    do {
      added.words.push_back(words[++i]);
      added.values.push_back(words[i]);
    } while (option->get_allow_extra_args() && i + 1 < words.size() &&
             !isOption(words[i + 1]));
  }
  return arguments;
}

bool binade::concernsOneCommand(const CLI::Option &option) {
  constexpr const char *kNames[] = {"--out",        "--resume", "--overwrite",
                                    "--stop-after", "--record", "--profile",
                                    "--save-inputs"};
  return std::ranges::any_of(
      kNames, [&](const char *name) { return option.check_name(name); });
}

bool binade::excludes(const CLI::Option &one, const CLI::Option &other) {
  return one.get_excludes().contains(const_cast<CLI::Option *>(&other));
}

std::string binade::joinWords(const std::vector<std::string> &words) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"
                                      "OPQRSTUVWXYZ0123456789-_./:=,@+%";
  std::string text;
  for (const std::string &word : words) {
    bool isPlain = !word.empty() && word.find_first_not_of(kPlain) == word.npos;
    std::string shown = printable(word, /*limit=*/1000);
    text += (text.empty() ? "" : " ") + (isPlain ? shown : "'" + shown + "'");
  }
  return text;
}

Error binade::replaceProcess(std::vector<std::string> words) {
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv("/proc/self/exe", pointers.data());
  return systemError("/proc/self/exe", "cannot execute", errno);
}
