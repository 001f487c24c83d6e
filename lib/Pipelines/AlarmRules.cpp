//===- AlarmRules.cpp - Rules of alarms, from files -----------------------===//

#include "binade/Pipelines/AlarmRules.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/DataFiles.h"
#include "binade/Monitor/Requests.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::AlarmRule;
using ::binade::AlarmScope;
using Node = YamlReader::Node;

namespace mlir::binade {
const DataFiles &getAlarmFiles();
} // namespace mlir::binade

static constexpr StringLiteral kAll = "all", kOff = "off";
static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// What may stand in a file
//===----------------------------------------------------------------------===//

static StringRef stringifyScope(AlarmScope scope) {
  constexpr StringLiteral names[] = {"each", "share", "all", "layer"};
  return names[static_cast<size_t>(scope)];
}

static LogicalResult checkRule(YamlReader &reader, Node &node,
                               AlarmRule &rule) {
  rule.origin = reader.getOrigin(node);
  for (auto [key, text] :
       {std::pair("name", &rule.name), std::pair("value", &rule.value),
        std::pair("when", &rule.when), std::pair("says", &rule.says)})
    if (text->empty())
      return reader.error(node, Twine("a rule of alarms has no '") + key + "'");
  for (const std::string &text : rule.watch)
    if (auto request =
            parseStatisticsRequest(text, *reader.getContext(), "'watch'");
        !request) {
      const ::binade::Error &error = request.error();
      return reader.error(node, error.where + ": " + error.message + "; " +
                                    error.notes.front());
    }
  if (::binade::Result<void> legal = checkAlarmRule(rule); !legal) {
    std::string text = legal.error().message;
    for (const std::string &note : legal.error().notes)
      text += ", " + note;
    return reader.error(node, text);
  }
  return success();
}

static YamlForm<AlarmRule> ruleForm() {
  return yamlMapping<AlarmRule>(
      "a rule of alarms",
      {yamlKey("name", "Name of the alarm", &AlarmRule::name, yamlString()),
       yamlKey("about", "What it finds", &AlarmRule::about, yamlString()),
       yamlKey("watch",
               "Statistics that it needs, as --stats takes them; none where "
               "metrics are enough",
               &AlarmRule::watch, yamlOneOrMore(yamlString())),
       yamlKey("scope",
               "A series for each value, the share of values that are not 0, "
               "one of all values, or one for each layer",
               &AlarmRule::scope, yamlEnum(stringifyScope, 3)),
       yamlKey("value", "Expression of statistics and metrics",
               &AlarmRule::value, yamlString()),
       yamlKey("window", "Steps to look back, the newest included",
               &AlarmRule::window, yamlCount(1)),
       yamlKey("level", "What 'when' compares with", &AlarmRule::level,
               yamlNumber(-kInfinity, kInfinity)),
       yamlKey("when", "Expression that is true where something is wrong",
               &AlarmRule::when, yamlString()),
       yamlKey("says", "The message, with {value}, {total} and {falls}",
               &AlarmRule::says, yamlString()),
       yamlKey("percent", "Whether the value is shown as percent",
               &AlarmRule::isShare, yamlFlag()),
       yamlKey("forecast", "A value whose step is foretold",
               &AlarmRule::forecast, yamlNumber(-kInfinity, kInfinity)),
       yamlKey("remedy", "What helps, in words", &AlarmRule::remedy,
               yamlString()),
       yamlKey("policy", "A policy that helps, by name or as its lines",
               &AlarmRule::policy, yamlString())},
      checkRule);
}

static FailureOr<AlarmRules> parse(const DataFile &file, MLIRContext *context) {
  return parseFile(file, "a list of rules of alarms", yamlList(ruleForm()),
                   context);
}

//===----------------------------------------------------------------------===//
// Which rules there are
//===----------------------------------------------------------------------===//

AlarmRules mlir::binade::getShippedAlarms(MLIRContext *context) {
  AlarmRules all;
  for (auto [name, text] : getAlarmFiles()) {
    FailureOr<AlarmRules> rules =
        parse({std::string(name), std::string(text), false}, context);
    if (failed(rules))
      llvm::report_fatal_error("the alarms that are shipped are no rules");
    llvm::append_range(all, *rules);
  }
  return all;
}

bool mlir::binade::isOfMetrics(const AlarmRule &rule) {
  return rule.watch.empty();
}

FailureOr<AlarmRules> mlir::binade::loadAlarms(StringRef file,
                                               MLIRContext *context) {
  FailureOr<DataFile> found =
      findFile({"alarms", getAlarmFiles()}, file, /*folder=*/std::nullopt,
               UnknownLoc::get(context));
  return failed(found) ? FailureOr<AlarmRules>(failure())
                       : parse(*found, context);
}

::binade::Result<void>
mlir::binade::checkAlarmWords(ArrayRef<std::string> words,
                              MLIRContext *context) {
  auto fail = [](const std::string &text) {
    return ::binade::Error{"--alarms", text, ::binade::ExitCode::Usage};
  };
  std::vector<std::string> known = {kAll.str(), kOff.str()};
  for (const AlarmRule &rule : getShippedAlarms(context))
    known.push_back(rule.name);
  for (const std::string &word : words) {
    if (word == kOff && words.size() > 1)
      return fail("'off' stands alone");
    if (!StringRef(word).ends_with(kDataSuffix) &&
        !llvm::is_contained(known, word))
      return fail("no alarm is called " + ::binade::quote(word) +
                  ::binade::suggest(word, known))
          .withNote("'binade list alarms' explains them; a file of rules ends "
                    "in " +
                    kDataSuffix.str());
  }
  return {};
}

FailureOr<AlarmRules> mlir::binade::chooseAlarms(ArrayRef<std::string> words,
                                                 MLIRContext *context) {
  if (llvm::is_contained(words, kOff))
    return AlarmRules();
  AlarmRules chosen;
  for (AlarmRule &rule : getShippedAlarms(context))
    if (isOfMetrics(rule) || llvm::is_contained(words, kAll) ||
        llvm::is_contained(words, rule.name))
      chosen.push_back(std::move(rule));
  for (const std::string &word : words) {
    if (!StringRef(word).ends_with(kDataSuffix))
      continue;
    FailureOr<AlarmRules> rules = loadAlarms(word, context);
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

std::vector<std::string> mlir::binade::listRequests(ArrayRef<AlarmRule> rules) {
  std::vector<std::string> requests;
  for (const AlarmRule &rule : rules)
    for (const std::string &request : rule.watch)
      if (!llvm::is_contained(requests, request))
        requests.push_back(request);
  return requests;
}
