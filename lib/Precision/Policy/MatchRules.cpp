//===- MatchRules.cpp - Which ops the rules of a policy match -------------===//

#include "binade/Precision/MatchRules.h"
#include "binade/IR/Names.h"

using namespace mlir;
using namespace mlir::binade;

std::vector<RuleMatches> mlir::binade::matchRules(const PrecisionGraph &graph) {
  constexpr size_t kExamples = 3;
  std::vector<RuleMatches> rules;
  for (const PolicyRule &rule : graph.getPolicy().rules)
    rules.push_back({rule.origin, &rule});
  std::vector<RuleMatches> classes;
  for (unsigned i = 0; i <= getMaxEnumValForPrecisionClass(); ++i)
    classes.push_back({getOrigin(PrecisionClass(i))});

  auto findLast = [&](Operation *op) {
    RuleMatches *last = nullptr;
    for (RuleMatches &matches : rules)
      if (graph.getMatcher().matches(*matches.rule, op)) {
        ++matches.matched;
        last = &matches;
      }
    return last;
  };
  auto decide = [&](RuleMatches &matches, Operation *op) {
    ++matches.decided;
    if (matches.examples.size() < kExamples)
      matches.examples.push_back(describe(op));
  };
  for (const PrecisionNode &node : graph.getNodes()) {
    PrecisionOpInterface op = node.op;
    RuleMatches *last = findLast(op);
    if (!last) {
      last = &classes[static_cast<unsigned>(op.getPrecisionClass())];
      ++last->matched;
    }
    decide(*last, op);
  }
  for (const StorageNode &node : graph.getStorages())
    if (RuleMatches *last = findLast(node.op))
      decide(*last, node.op);
  llvm::copy_if(classes, std::back_inserter(rules),
                [](const RuleMatches &matches) { return matches.matched > 0; });
  return rules;
}

/// Says which names there are in the model if it has none that a selector
/// matches.
static std::string suggestName(const PolicySelector &match,
                               const PrecisionGraph &graph) {
  if (match.name.text.empty())
    return "";
  llvm::SetVector<StringRef> names;
  for (const PrecisionNode &node : graph.getNodes())
    names.insert(getNodeName(node.op));
  for (const StorageNode &node : graph.getStorages())
    names.insert(getNodeName(node.op));
  if (llvm::any_of(names,
                   [&](StringRef name) { return match.name.matches(name); }))
    return "";
  return suggestNames(match.name.text,
                      std::vector<std::string>(names.begin(), names.end()));
}

LogicalResult mlir::binade::checkRules(const PrecisionGraph &graph) {
  LogicalResult result = success();
  for (const PolicyRule &rule : graph.getPolicy().rules) {
    auto isMatched = [&](const auto &node) {
      return graph.getMatcher().matches(rule, node.op);
    };
    if (!rule.isUser || rule.isOptional ||
        llvm::any_of(graph.getNodes(), isMatched) ||
        llvm::any_of(graph.getStorages(), isMatched))
      continue;
    result = emitError(rule.location)
             << "rule matches no op of this model; 'optional: true' allows that"
             << suggestName(rule.match, graph);
  }
  return result;
}
