//===- ResumeCommand.cpp - Resuming a run by its directory ----------------===//

#include "binade/CommandLine/ResumeCommand.h"
#include "binade/CommandLine/Arguments.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/Container/ExternalFile.h"
#include "binade/Container/Json.h"
#include <algorithm>
#include <filesystem>
#include <iostream>

using namespace binade;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string binade::findRunDirectory(const std::string &path) {
  fs::path file(path);
  std::error_code ignored;
  bool isOfRun =
      (file.filename() == "run.json" || file.filename() == "run.yaml") &&
      fs::is_regular_file(file, ignored) &&
      fs::is_regular_file(file.parent_path() / "run.json", ignored);
  if (!isOfRun)
    return path;
  return file.has_parent_path() ? file.parent_path().string() : ".";
}

/// Returns the last invocation in `run`/run.json.
static Result<nlohmann::json> readInvocation(const std::string &run) {
  std::string path = run + "/run.json";
  Result<ExternalFile> file = openFile(path);
  if (!file)
    return file.takeError().withNote("the command that trained a run is there");
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
                 "was not trained by '" + joinWords(prefix) + "' but by '" +
                     joinWords(begin) + "'",
                 ExitCode::Usage}
        .withNote("name the model and the options of the run");
  return Words(command.begin() + static_cast<std::ptrdiff_t>(prefix.size()),
               command.end());
}

Result<RecordedCommand> binade::readRecordedCommand(const std::string &run,
                                                    const Words &prefix) {
  Result<nlohmann::json> last = readInvocation(run);
  if (!last)
    return last.takeError();
  Result<Words> words = stripPrefix((*last)["command"], prefix, run);
  if (!words)
    return words.takeError();
  return RecordedCommand{*std::move(words), (*last)["directory"]};
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
static Words merge(const std::vector<Argument> &recorded,
                   const std::vector<Argument> &given) {
  Words merged;
  auto append = [&](const Argument &argument) {
    merged.insert(merged.end(), argument.words.begin(), argument.words.end());
  };
  auto isRepeatable = [](const Argument &argument) {
    return argument.option->get_items_expected_max() > 1;
  };
  for (const Argument &argument : recorded) {
    bool isOwn = argument.option && concernsOneCommand(*argument.option);
    bool isReplaced =
        argument.option && !isRepeatable(argument) &&
        std::ranges::any_of(given, [&](const Argument &other) {
          return other.option && (other.option == argument.option ||
                                  excludes(*argument.option, *other.option));
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
                          const std::vector<Argument> &given) {
  std::error_code failure;
  if (fs::equivalent(directory, fs::current_path(failure), failure))
    return {};
  for (const Argument &argument : given)
    if (hasRelativePath(argument))
      return usageError(joinWords(argument.words) +
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
  std::optional<std::vector<Argument>> given = divideArguments(command, words);
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
  std::string run = findRunDirectory(resume->values.front());
  Result<RecordedCommand> recorded = readRecordedCommand(run, prefix);
  if (!recorded)
    return recorded.takeError();
  std::optional<std::vector<Argument>> arguments =
      divideArguments(command, recorded->words);
  if (!arguments)
    return Error{printable(run), "its command has options that are unknown: " +
                                     joinWords(recorded->words)};
  std::error_code unknown;
  fs::path before = fs::current_path(unknown);
  if (Result<void> entered = enter(recorded->directory, *given); !entered)
    return entered;
  if (fs::current_path(unknown) != before)
    run = (before / run).string();
  Words merged = prefix;
  for (const std::string &word : merge(*arguments, *given))
    merged.push_back(word);
  merged.insert(merged.end(), {"--resume", run});
  std::cout << "command: " << joinWords(merged) << std::endl;
  return replaceProcess(std::move(merged));
}
