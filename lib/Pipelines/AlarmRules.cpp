//===- AlarmRules.cpp - Selection of alarm rules --------------------------===//

#include "binade/Pipelines/AlarmRules.h"
#include "binade/Config/DataFiles.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include "binade/Monitor/Requests.h"
#include "binade/Pipelines/Pipelines.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::AlarmRule;
using ::binade::AlarmScope;
using ::binade::AlarmSettings;
using Node = YamlReader::Node;

namespace mlir::binade {
const DataFiles &getAlarmFiles();
} // namespace mlir::binade

static constexpr StringLiteral kAll = "all", kOff = "off";
static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Files of rules
//===----------------------------------------------------------------------===//

static StringRef stringifyScope(AlarmScope scope) {
  return ::binade::name(scope);
}

static LogicalResult checkRule(YamlReader &reader, Node &node,
                               AlarmRule &rule) {
  rule.origin = reader.getOrigin(node);
  for (auto [key, text] :
       {std::pair("name", &rule.name), std::pair("value", &rule.value),
        std::pair("when", &rule.when), std::pair("says", &rule.says)})
    if (text->empty())
      return reader.error(node, Twine("a rule of alarms has no '") + key + "'");
  std::vector<std::string> requests = rule.watch;
  llvm::append_range(requests, rule.watchByDefault);
  for (const std::string &text : requests)
    if (auto request =
            parseStatisticsRequest(text, *reader.getContext(), "'watch'");
        !request) {
      const ::binade::Error &error = request.error();
      return reader.error(node, error.where + ": " + error.message + "; " +
                                    error.notes.front());
    }
  rule.isDefault = !rule.watchByDefault.empty();
  if (::binade::Result<void> legal = checkAlarmRule(rule); !legal) {
    std::string text = legal.error().message;
    for (const std::string &note : legal.error().notes)
      text += ", " + note;
    return reader.error(node, text);
  }
  return success();
}

static YamlSchema<AlarmRule> ruleSchema() {
  return yamlMapping<AlarmRule>(
      "a rule of alarms",
      {yamlKey("name", "Name of the alarm", &AlarmRule::name, yamlString()),
       yamlKey("about", "What the alarm detects", &AlarmRule::about,
               yamlString()),
       yamlKey("watch",
               "Statistics that the rule evaluates, as for --stats; none if "
               "metrics are enough",
               &AlarmRule::watch, yamlOneOrMore(yamlString())),
       yamlKey("by_default",
               "Statistics that the rule evaluates if no option or policy "
               "names it; with this key it is on by default",
               &AlarmRule::watchByDefault, yamlOneOrMore(yamlString())),
       yamlKey("scope",
               "One series per value, the share of values that are not 0, one "
               "series for all values, or one per layer",
               &AlarmRule::scope,
               yamlEnum(stringifyScope, ::binade::kNumAlarmScopes - 1)),
       yamlKey("value", "Expression of statistics and metrics",
               &AlarmRule::value, yamlString()),
       yamlKey("window", "Steps to look back, the newest included",
               &AlarmRule::window, yamlCount(1)),
       yamlKey("level", "What 'when' compares with", &AlarmRule::level,
               yamlNumber(-kInfinity, kInfinity)),
       yamlKey("when", "Expression that is true if the alarm is raised",
               &AlarmRule::when, yamlString()),
       yamlKey("says",
               "The message, with {value}, {total}, {falls} and statistics by "
               "their names",
               &AlarmRule::says, yamlString()),
       yamlKey("percent", "Whether the value is shown as percent",
               &AlarmRule::isShare, yamlFlag()),
       yamlKey("forecast", "A value for which the step is forecast",
               &AlarmRule::forecast, yamlNumber(-kInfinity, kInfinity)),
       yamlKey("remedy", "What may help, as text", &AlarmRule::remedy,
               yamlString()),
       yamlKey("policy", "A policy that helps, by name or as its lines",
               &AlarmRule::policy, yamlString())},
      checkRule);
}

static FailureOr<AlarmRules> parse(const DataFile &file, MLIRContext *context) {
  return parseFile(file, "a list of rules of alarms", yamlList(ruleSchema()),
                   context);
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

AlarmRules mlir::binade::getShippedAlarms(MLIRContext *context) {
  AlarmRules all;
  for (auto [name, text] : getAlarmFiles()) {
    FailureOr<AlarmRules> rules =
        parse({std::string(name), std::string(text), false}, context);
    if (failed(rules))
      llvm::report_fatal_error(
          "the alarm rules that Binade ships are not valid");
    llvm::append_range(all, *rules);
  }
  return all;
}

static bool isFile(StringRef word) { return word.ends_with(kDataSuffix); }

/// Returns all valid requests other than files.
static std::vector<std::string> listKnownWords(MLIRContext *context) {
  std::vector<std::string> known = {kAll.str(), kOff.str()};
  for (const AlarmRule &rule : getShippedAlarms(context))
    known.push_back(rule.name);
  return known;
}

static std::string describeUnknown(const std::string &word,
                                   const std::vector<std::string> &known) {
  return "no alarm is called " + ::binade::quote(word) +
         ::binade::suggest(word, known);
}

static const std::string kHint =
    "'binade list alarms' explains them; a file of rules ends in " +
    kDataSuffix.str();

::binade::Result<void>
mlir::binade::checkAlarmRequests(ArrayRef<std::string> words,
                                 MLIRContext *context) {
  auto fail = [](const std::string &text) {
    return ::binade::Error{"--alarms", text, ::binade::ExitCode::Usage};
  };
  std::vector<std::string> known = listKnownWords(context);
  for (const std::string &word : words) {
    if (word == kOff && words.size() > 1)
      return fail("'off' stands alone");
    if (!isFile(word) && !llvm::is_contained(known, word))
      return fail(describeUnknown(word, known)).withNote(kHint);
  }
  return {};
}

/// Fails if a request of a policy is not a known alarm.
static LogicalResult check(ArrayRef<AlarmRequest> words, MLIRContext *context) {
  std::vector<std::string> known = listKnownWords(context);
  for (const AlarmRequest &word : words) {
    if (word.contents || llvm::is_contained(known, word.text))
      continue;
    InFlightDiagnostic error = emitError(word.location);
    error << describeUnknown(word.text, known);
    error.attachNote() << kHint;
    return error;
  }
  return success();
}

static bool has(ArrayRef<AlarmRequest> words, StringRef text) {
  return llvm::any_of(
      words, [&](const AlarmRequest &word) { return word.text == text; });
}

static FailureOr<AlarmRules> chooseRules(ArrayRef<AlarmRequest> words,
                                         MLIRContext *context) {
  if (has(words, kOff))
    return AlarmRules();
  AlarmRules chosen;
  for (AlarmRule &rule : getShippedAlarms(context)) {
    bool isAsked = has(words, kAll) || has(words, rule.name);
    if (!isAsked && !isOnByDefault(rule))
      continue;
    if (!isAsked && !rule.watchByDefault.empty())
      rule.watch = rule.watchByDefault;
    chosen.push_back(std::move(rule));
  }
  for (const AlarmRequest &word : words) {
    if (!word.contents)
      continue;
    FailureOr<AlarmRules> rules =
        parse({word.text, *word.contents, true}, context);
    if (failed(rules))
      return failure();
    for (AlarmRule &rule : *rules) {
      llvm::erase_if(chosen, [&](const AlarmRule &other) {
        return other.name == rule.name;
      });
      chosen.push_back(std::move(rule));
    }
  }
  return chosen;
}

FailureOr<AlarmSettings> mlir::binade::chooseAlarms(const AlarmRequests &words,
                                                    MLIRContext *context) {
  if (failed(check(words.rules, context)))
    return failure();
  FailureOr<AlarmRules> rules = chooseRules(words.rules, context);
  if (failed(rules))
    return failure();
  AlarmSettings settings;
  settings.rules = std::move(*rules);
  if (words.action && !settings.setAction(words.action->text))
    return emitError(words.action->location)
           << "expected warn, stop or switch:POLICY, got "
           << ::binade::quote(words.action->text);
  return settings;
}

FailureOr<AlarmRequests>
mlir::binade::findAlarmRequests(const CompileOptions &options,
                                AlarmRequests ofPolicy, MLIRContext *context) {
  Location nowhere = UnknownLoc::get(context);
  AlarmRequests words = std::move(ofPolicy);
  if (!options.alarms.empty())
    words.rules.clear();
  for (const std::string &text : options.alarms) {
    AlarmRequest &word =
        words.rules.emplace_back(AlarmRequest{text, std::nullopt, nowhere});
    if (!isFile(text))
      continue;
    FailureOr<DataFile> file = findFile({"alarms", getAlarmFiles()}, text,
                                        /*folder=*/std::nullopt, nowhere);
    if (failed(file))
      return failure();
    word = {file->file, file->text, nowhere};
  }
  if (!options.onAlarm.empty())
    words.action = AlarmRequest{options.onAlarm, std::nullopt, nowhere};
  return words;
}

std::vector<std::string> mlir::binade::listRequests(ArrayRef<AlarmRule> rules) {
  std::vector<std::string> requests;
  for (const AlarmRule &rule : rules)
    for (const std::string &request : rule.watch)
      if (!llvm::is_contained(requests, request))
        requests.push_back(request);
  return requests;
}
