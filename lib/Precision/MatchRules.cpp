//===- MatchRules.cpp - What the rules of a policy match ------------------===//

#include "binade/Precision/MatchRules.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/RuleMatcher.h"

using namespace mlir;
using namespace mlir::binade;

static std::string describe(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  if (StringRef node = getNodeName(op); !node.empty())
    text += (" at '" + node + "'").str();
  if (Phase phase = getPhase(op); phase != Phase::Forward)
    text += (", " + stringifyPhase(phase)).str();
  return text;
}

std::vector<RuleMatches> mlir::binade::matchRules(const Policy &policy,
                                                  func::FuncOp step) {
  constexpr size_t kExamples = 3;
  std::vector<RuleMatches> rules;
  for (const PolicyRule &rule : policy.rules)
    rules.push_back({rule.origin, &rule});
  std::vector<RuleMatches> classes;
  for (unsigned i = 0; i <= getMaxEnumValForPrecisionClass(); ++i)
    classes.push_back(
        {("class " + stringifyPrecisionClass(PrecisionClass(i))).str()});

  RuleMatcher matcher(policy.rules, step);
  step.walk([&](PrecisionOpInterface op) {
    if (!hasChosenFormat(op))
      return;
    RuleMatches *last = nullptr;
    for (RuleMatches &matches : rules)
      if (matcher.matches(*matches.rule, op)) {
        ++matches.matched;
        last = &matches;
      }
    if (!last) {
      last = &classes[static_cast<unsigned>(op.getPrecisionClass())];
      ++last->matched;
    }
    ++last->decided;
    if (last->examples.size() < kExamples)
      last->examples.push_back(describe(op));
  });
  llvm::copy_if(classes, std::back_inserter(rules),
                [](const RuleMatches &matches) { return matches.matched > 0; });
  return rules;
}
