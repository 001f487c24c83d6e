//===- OptionFile.cpp - Options of a command in a YAML file ---------------===//

#include "OptionFile.h"
#include "Diagnostics.h"
#include "ExitCode.h"
#include "binade/CommandLine/Arguments.h"
#include "binade/Config/YamlSchema.h"
#include "binade/Container/ExternalFile.h"
#include "llvm/Support/FileSystem.h"
#include <iostream>

using namespace mlir::binade;
using ::binade::Argument;
using ::binade::Error;
using ::binade::ExitCode;
using ::binade::printable;
using mlir::failed;
using mlir::failure;
using mlir::LogicalResult;
using mlir::success;
using Words = std::vector<std::string>;

/// The positional argument of all commands that take a model, and its key.
static constexpr const char *kModel = "model";

/// An option file has at most this many bytes.
static constexpr std::uint64_t kMaxBytes = 1 << 20;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// A key of an option file with its values.
struct Setting {
  std::string key;
  Words values; ///< "true" or "false" for an option without a value.
};

/// Whether an option takes values, and several of them.
enum class Kind { Flag, Single, Repeatable };
} // namespace

static Kind getKind(const CLI::Option &option) {
  int most = option.get_items_expected_max();
  return most == 0 ? Kind::Flag : most == 1 ? Kind::Single : Kind::Repeatable;
}

static const CLI::Option *findOption(const CLI::App &command,
                                     const std::string &key) {
  return command.get_option_no_throw(key == kModel ? key : "--" + key);
}

/// Adds the names of the options of `command`, without dashes, to `keys`.
static void addKeys(const CLI::App &command, Words &keys) {
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      if (name != "help" && name != "resume" && !llvm::is_contained(keys, name))
        keys.push_back(name);
}

/// Reads `key=value` for each entry of a mapping.
static LogicalResult
readPairs(YamlReader &reader, llvm::yaml::MappingNode &mapping, Words &values) {
  for (llvm::yaml::KeyValueNode &pair : mapping) {
    if (!pair.getKey())
      return reader.fail();
    auto key = reader.readScalar(*pair.getKey(), "a name");
    if (failed(key))
      return failure();
    if (!pair.getValue())
      return reader.fail();
    auto value = reader.readScalar(*pair.getValue(), "a value");
    if (failed(value))
      return failure();
    values.push_back(*key + "=" + *value);
  }
  return failure(reader.hasFailed());
}

/// Reads the value of a key: a scalar, or for an option that may be repeated a
/// list, or a mapping of the names and values in `NAME=VALUE`.
static LogicalResult readValues(YamlReader &reader, llvm::yaml::Node &node,
                                Kind kind, Words &values) {
  if (kind == Kind::Flag) {
    bool value;
    if (failed(yamlFlag().read(reader, node, value)))
      return failure();
    values.push_back(value ? "true" : "false");
    return success();
  }
  auto *mapping = llvm::dyn_cast<llvm::yaml::MappingNode>(&node);
  if (mapping && kind == Kind::Repeatable)
    return readPairs(reader, *mapping, values);
  if (kind == Kind::Repeatable)
    return yamlOneOrMore(yamlString()).read(reader, node, values);
  auto value = reader.readScalar(node, "a single value");
  if (failed(value))
    return failure();
  values.push_back(*std::move(value));
  return success();
}

/// Reads the entries of an option file. `app` is the program; keys are the
/// options of `command` and of `binade train`.
static LogicalResult readEntries(YamlReader &reader, const CLI::App &app,
                                 const CLI::App &command,
                                 std::vector<Setting> &entries) {
  const CLI::App &train = *app.get_subcommand("train");
  Words keys = {kModel};
  addKeys(train, keys);
  addKeys(command, keys);
  if (!reader.getRoot())
    return reader.fail();
  auto read = [&](size_t index, llvm::yaml::Node &node) {
    Setting &entry = entries.emplace_back(Setting{keys[index], {}});
    const CLI::Option *option = findOption(command, entry.key);
    if (!option)
      option = findOption(train, entry.key);
    return readValues(reader, node, getKind(*option), entry.values);
  };
  if (failed(readKeys(reader, *reader.getRoot(), "the options of a command",
                      keys, read, "binade help train")))
    return failure();
  return reader.finish();
}

//===----------------------------------------------------------------------===//
// Expanding
//===----------------------------------------------------------------------===//

/// Whether `given` has the option, or one that excludes it.
static bool isReplaced(const CLI::Option &option,
                       const std::vector<Argument> &given) {
  return llvm::any_of(given, [&](const Argument &argument) {
    return argument.option && (argument.option == &option ||
                               ::binade::excludes(option, *argument.option));
  });
}

/// Returns the words of the option file's entries that `given` do not replace.
static Words expand(const CLI::App &command,
                    const std::vector<Setting> &entries,
                    const std::vector<Argument> &given) {
  Words words;
  for (const Setting &entry : entries) {
    const CLI::Option *option = findOption(command, entry.key);
    if (!option || entry.key == kModel || isReplaced(*option, given))
      continue;
    std::string name = "--" + entry.key;
    if (getKind(*option) != Kind::Flag)
      for (const std::string &value : entry.values)
        words.push_back(name + "=" + value);
    else if (entry.values.front() == "true")
      words.push_back(name);
  }
  return words;
}

static bool isOptionFile(const std::string &word) {
  return llvm::StringRef(word).ends_with(".yaml") ||
         llvm::StringRef(word).ends_with(".yml");
}

int expandOptionFile(const CLI::App &app, const CLI::App &command,
                     const Words &words, ::binade::DiagnosticFormat format) {
  if (!findOption(command, kModel))
    return ExitCode::Ok;
  auto given = ::binade::divideArguments(command, words);
  if (!given)
    return ExitCode::Ok; // CLI11 reports the option.
  auto first = llvm::find_if(
      *given, [](const Argument &argument) { return !argument.option; });
  if (first == given->end())
    return ExitCode::Ok;
  std::string path = first->words.front();
  mlir::MLIRContext context;
  Diagnostics diagnostics(context, path, format);
  std::string ofRun = path + "/run.yaml";
  if (llvm::sys::fs::exists(ofRun))
    return diagnostics.fail(
        Error{printable(path), "is the directory of a run, expected a model; " +
                                   printable(ofRun) +
                                   " repeats the options of the run"});
  if (!isOptionFile(path))
    return ExitCode::Ok;
  auto file = ::binade::openFile(path);
  if (!file)
    return diagnostics.fail(file.error());
  auto text = readText(*file, kMaxBytes);
  if (!text)
    return diagnostics.fail(text.error());
  std::vector<Setting> entries;
  YamlReader reader(*text, path, &context);
  if (failed(readEntries(reader, app, command, entries)))
    return ExitCode::Rejected;
  auto model = llvm::find_if(
      entries, [](const Setting &entry) { return entry.key == kModel; });
  if (model == entries.end())
    return diagnostics.fail(
        Error{::binade::printable(path),
              "has no model: add a line such as 'model: model.onnx'"});
  Words expanded = {app.get_name(), command.get_name(), model->values.front()};
  llvm::append_range(expanded, expand(command, entries, *given));
  for (const Argument &argument : *given)
    if (&argument != &*first)
      llvm::append_range(expanded, argument.words);
  if (command.get_name() == "train")
    std::cout << "command: " << ::binade::joinWords(expanded) << std::endl;
  return diagnostics.fail(::binade::replaceProcess(std::move(expanded)));
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Writes a scalar: plain where YAML reads the same text, else in quotes.
static std::string printScalar(llvm::StringRef text) {
  constexpr llvm::StringLiteral kPlain = "abcdefghijklmnopqrstuvwxyz"
                                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789_./+-=";
  bool isPlain = !text.empty() && llvm::isAlnum(text.front()) &&
                 text.find_first_not_of(kPlain) == llvm::StringRef::npos;
  std::string printed;
  llvm::raw_string_ostream stream(printed);
  if (isPlain)
    stream << text;
  else
    stream << llvm::json::Value(llvm::json::fixUTF8(text));
  return printed;
}

std::string printOptionFile(const CLI::App &command) {
  std::string text;
  for (const CLI::Option *option : command.get_options()) {
    bool isModel = option->get_name(true) == kModel;
    if (option->count() == 0 || ::binade::concernsOneCommand(*option) ||
        (option->get_lnames().empty() && !isModel))
      continue;
    text += (isModel ? kModel : option->get_lnames().front()) + ":";
    Kind kind = isModel ? Kind::Single : getKind(*option);
    for (const std::string &value : option->results())
      text += kind == Kind::Repeatable ? "\n  - " + printScalar(value)
              : kind == Kind::Flag     ? " true"
                                       : " " + printScalar(value);
    text += "\n";
  }
  return text;
}
