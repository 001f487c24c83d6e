//===- ResumeCommand.cpp - Resuming a run by its directory ----------------===//

#include "binade/CommandLine/ResumeCommand.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Json.h"
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <unistd.h>

using namespace binade;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// Options that the recorded command keeps for itself: where it wrote the run,
/// when it ended, and what else it wrote.
static constexpr std::string_view kOfOneCommand[] = {
    "--out",    "--resume",  "--overwrite",  "--stop-after",
    "--record", "--profile", "--save-inputs"};

namespace {
/// An option with its values, or a positional argument, whose option is null.
struct Argument {
  const CLI::Option *option;
  Words words;  ///< As given on the command line.
  Words values; ///< Without the name of the option.

  bool isCalled(std::string_view name) const {
    return option && option->check_name(std::string(name));
  }
};
using Arguments = std::vector<Argument>;
} // namespace

static bool isOption(const std::string &word) {
  return word.size() > 1 && word.starts_with("-");
}

/// Assigns words to options; returns nothing if an option is unknown or lacks
/// its value.
static std::optional<Arguments> divide(const CLI::App &command,
                                       const Words &words) {
  Arguments arguments;
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

/// Returns the last invocation in `run`/run.json.
static Result<nlohmann::json> readInvocation(const std::string &run) {
  std::string path = run + "/run.json";
  Result<ExternalFile> file = openFile(path);
  if (!file)
    return file.takeError().withNote(
        "without a model, --resume continues a run whose command is there");
  Result<std::string> text = readText(*file, JsonLimits().bytes);
  if (!text)
    return text.takeError();
  Result<nlohmann::json> object = parseJson(*text, printable(path));
  if (!object)
    return object;
  auto isText = [](const nlohmann::json &value) { return value.is_string(); };
  if (object->is_object() && object->contains("invocations") &&
      (*object)["invocations"].is_array() && !(*object)["invocations"].empty())
    if (const nlohmann::json &last = (*object)["invocations"].back();
        last.is_object() && last.contains("command") &&
        last["command"].is_array() &&
        std::ranges::all_of(last["command"], isText) &&
        last.contains("directory") && last["directory"].is_string())
      return last;
  return Error{printable(path), "lists no command of 'binade train'"};
}

/// Joins words as a shell reads them.
static std::string join(const Words &words) {
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

/// Returns the arguments of a recorded command after `prefix`, whose first word
/// may be a path.
static Result<Words> stripPrefix(const Words &command, const Words &prefix,
                                 const std::string &run) {
  Words begin(command.begin(),
              command.begin() + static_cast<std::ptrdiff_t>(
                                    std::min(prefix.size(), command.size())));
  if (!begin.empty())
    begin.front() = fs::path(begin.front()).filename().string();
  if (begin != prefix)
    return Error{printable(run),
                 "was not trained by '" + join(prefix) + "' but by '" +
                     join(begin) + "'",
                 ExitCode::Usage}
        .withNote("name the model and the options of the run");
  return Words(command.begin() + static_cast<std::ptrdiff_t>(prefix.size()),
               command.end());
}

/// Whether a value of the argument is a relative path, as far as its help says
/// that it is a path.
static bool hasRelativePath(const Argument &argument) {
  if (!argument.option ||
      argument.option->get_type_name().find("FILE") == std::string::npos)
    return false;
  return std::ranges::any_of(argument.values, [](const std::string &value) {
    return !fs::path(value.substr(value.find('=') + 1)).is_absolute();
  });
}

/// Returns the recorded arguments, changed by those that are given now.
static Words merge(const Arguments &recorded, const Arguments &given) {
  Words merged;
  auto append = [&](const Argument &argument) {
    merged.insert(merged.end(), argument.words.begin(), argument.words.end());
  };
  auto isRepeatable = [](const Argument &argument) {
    return argument.option->get_items_expected_max() > 1;
  };
  for (const Argument &argument : recorded) {
    bool isOwn = std::ranges::any_of(
        kOfOneCommand, [&](auto name) { return argument.isCalled(name); });
    bool isReplaced = argument.option && !isRepeatable(argument) &&
                      std::ranges::any_of(given, [&](const Argument &other) {
                        return other.option == argument.option;
                      });
    if (!isOwn && !isReplaced)
      append(argument);
  }
  for (const Argument &argument : given) {
    bool isKnown = isRepeatable(argument) &&
                   std::ranges::any_of(recorded, [&](const Argument &other) {
                     return other.option == argument.option &&
                            other.values == argument.values;
                   });
    if (!isKnown && !argument.isCalled("--resume"))
      append(argument);
  }
  return merged;
}

/// Enters the directory of the recorded command, to which its paths are
/// relative.
static Result<void> enter(const std::string &directory,
                          const Arguments &given) {
  std::error_code failure;
  if (fs::equivalent(directory, fs::current_path(failure), failure))
    return {};
  for (const Argument &argument : given)
    if (hasRelativePath(argument))
      return usageError(join(argument.words) +
                        ": expected an absolute path, because the run's "
                        "command ran in " +
                        quote(directory));
  fs::current_path(directory, failure);
  if (failure)
    return systemError(printable(directory), "cannot enter", failure.value());
  return {};
}

Result<void> binade::resumeRecorded(const CLI::App &command,
                                    const Words &prefix, const Words &words) {
  std::optional<Arguments> given = divide(command, words);
  if (!given)
    return {};
  auto resume = std::ranges::find_if(*given, [](const Argument &argument) {
    return argument.isCalled("--resume");
  });
  bool hasModel = std::ranges::any_of(
      *given, [](const Argument &argument) { return !argument.option; });
  bool asksForHelp = std::ranges::any_of(*given, [](const Argument &argument) {
    return argument.isCalled("--help");
  });
  if (resume == given->end() || hasModel || asksForHelp)
    return {};
  std::string run = resume->values.front();
  Result<nlohmann::json> last = readInvocation(run);
  if (!last)
    return last.takeError();
  Result<Words> recorded = stripPrefix((*last)["command"], prefix, run);
  if (!recorded)
    return recorded.takeError();
  std::optional<Arguments> arguments = divide(command, *recorded);
  if (!arguments)
    return Error{printable(run), "its command has options that are unknown: " +
                                     join(*recorded)};
  std::string directory = (*last)["directory"];
  std::error_code unknown;
  fs::path before = fs::current_path(unknown);
  if (Result<void> entered = enter(directory, *given); !entered)
    return entered;
  if (fs::current_path(unknown) != before)
    run = (before / run).string();
  Words merged = prefix;
  for (const std::string &word : merge(*arguments, *given))
    merged.push_back(word);
  merged.insert(merged.end(), {"--resume", run});
  std::cout << "command: " << join(merged) << std::endl;
  std::vector<char *> pointers;
  for (std::string &word : merged)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv("/proc/self/exe", pointers.data());
  return systemError("/proc/self/exe", "cannot execute", errno);
}
