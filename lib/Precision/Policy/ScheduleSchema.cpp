//===- ScheduleSchema.cpp - Schema of a schedule of policies --------------===//

#include "PolicySchema.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::binade;
using Node = YamlReader::Node;

YamlSchema<CountOrShare>
mlir::binade::yamlCountOrShare(StringRef things, int64_t min, int64_t max) {
  std::string expected = llvm::formatv(
      "a number of {0} from {1} to {2}, or a share of them such as 13%", things,
      min, max);
  auto read = [=](YamlReader &reader, Node &node,
                  CountOrShare &count) -> LogicalResult {
    FailureOr<std::string> word = reader.readScalar(node, expected);
    if (failed(word))
      return failure();
    StringRef text = *word;
    count.isShare = text.consume_back("%");
    int64_t whole = 0;
    bool isWrong =
        count.isShare
            ? text.getAsDouble(count.number) ||
                  !(count.number >= 0 && count.number <= 100)
            : text.getAsInteger(10, whole) || whole < min || whole > max;
    if (isWrong)
      return reader.error(node, "expected " + Twine(expected) + ", got '" +
                                    *word + "'");
    count.number =
        count.isShare ? count.number / 100 : static_cast<double>(whole);
    return success();
  };
  llvm::json::Object whole{{"type", "integer"}, {"minimum", min}};
  llvm::json::Object share{{"type", "string"},
                           {"pattern", "^[0-9]+([.][0-9]+)?%$"}};
  return {read,
          llvm::json::Object{{"anyOf", llvm::json::Array{std::move(whole),
                                                         std::move(share)}}}};
}

std::string mlir::binade::describeStart(const PolicySwitch &later) {
  return "after " + later.after.print() +
         (later.after.isShare ? " of all steps" : " steps");
}

static YamlSchema<PolicySwitch> switchSchema() {
  constexpr int64_t kMaxSteps = std::numeric_limits<int32_t>::max();
  auto check = [](YamlReader &reader, Node &node, PolicySwitch &later) {
    later.location = reader.getLoc(node);
    bool isComplete = later.after != CountOrShare() && !later.policy.empty();
    return isComplete ? success()
                      : reader.error(node, "expected the keys 'after', above "
                                           "0, and 'policy'");
  };
  return yamlMapping<PolicySwitch>(
      "an entry of a schedule",
      {yamlKey("after",
               "Steps after which the run switches to this policy, or a share "
               "of all steps",
               &PolicySwitch::after, yamlCountOrShare("steps", 1, kMaxSteps)),
       yamlKey("policy",
               "The policy: a name that 'binade list policies' prints, or a "
               "file next to this one",
               &PolicySwitch::policy, yamlString())},
      check);
}

YamlSchema<std::vector<PolicySwitch>> mlir::binade::yamlSchedule() {
  YamlSchema<std::vector<PolicySwitch>> list = yamlList(switchSchema());
  return {
      [read = list.read](YamlReader &reader, Node &node,
                         std::vector<PolicySwitch> &switches) -> LogicalResult {
        if (failed(read(reader, node, switches)))
          return failure();
        for (size_t i = 1; i < switches.size(); ++i) {
          const CountOrShare &before = switches[i - 1].after,
                             &after = switches[i].after;
          if (before.isShare == after.isShare && after.number <= before.number)
            return emitError(switches[i].location)
                   << "begins " << describeStart(switches[i])
                   << ", not later than the previous policy, which begins "
                   << describeStart(switches[i - 1]);
        }
        return success();
      },
      std::move(list.schema)};
}

void mlir::binade::warnAboutIgnoredSchedule(const Policy &policy) {
  if (!policy.schedule || policy.schedule->empty())
    return;
  const PolicySwitch &later = policy.schedule->front();
  emitWarning(later.location)
      << "a compiled step has one policy: it keeps '" << policy.name
      << "' for all steps, and only 'binade train' of a model continues under '"
      << later.policy << "' " << describeStart(later);
}
