//===- OperandRule.cpp - PyTorch's operand rule ---------------------------===//
//
// An op is narrow if all that it reads is narrow. One forward traversal decides
// the producers of an op before the op.
//
//===----------------------------------------------------------------------===//

#include "binade/Precision/Assigner.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
class OperandRule : public Assigner {
public:
  std::vector<Choice> assign(const PrecisionGraph &graph) const override {
    std::vector<Choice> choices;
    // The format in which readers find each node's results.
    std::vector<FloatType> found;
    choices.reserve(graph.getNodes().size());
    found.reserve(graph.getNodes().size());
    for (unsigned i = 0, e = graph.getNodes().size(); i < e; ++i) {
      choices.push_back(choose(graph, i, found));
      FloatType settled = graph.getNodes()[i].settled;
      found.push_back(settled ? settled : choices.back().format);
    }
    return choices;
  }

private:
  static Choice choose(const PrecisionGraph &graph, unsigned node,
                       ArrayRef<FloatType> found) {
    const Policy &policy = graph.getPolicy();
    switch (graph.getNodes()[node].precisionClass) {
    case PrecisionClass::Allow:
      return {policy.narrow, "", {}};
    case PrecisionClass::Deny:
    case PrecisionClass::Unlisted:
      return {policy.wide, "", {}};
    case PrecisionClass::Infer:
    case PrecisionClass::Clear:
      break;
    }
    ArrayRef<PrecisionInput> inputs = graph.getInputs(node);
    if (inputs.empty())
      return {policy.wide, "reads no value whose format is chosen", {}};
    for (const PrecisionInput &input : inputs) {
      FloatType format = input.producer ? found[*input.producer]
                                        : graph.getStoredFormat(input.value);
      if (format != policy.narrow)
        return {policy.wide, "reads a wide value from", input.value};
    }
    return {policy.narrow, "reads only narrow values, such as from",
            inputs.front().value};
  }
};
} // namespace

std::unique_ptr<Assigner> mlir::binade::createOperandRule() {
  return std::make_unique<OperandRule>();
}
