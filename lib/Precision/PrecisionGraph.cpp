//===- PrecisionGraph.cpp - What an assigner decides about ----------------===//

#include "binade/Precision/PrecisionGraph.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::binade;

PrecisionGraph::PrecisionGraph(func::FuncOp step, const Policy &policy)
    : policy(policy), matcher(policy.rules, step) {
  size_t ops = llvm::range_size(step.front().getOperations());
  nodes.reserve(ops);
  indices.reserve(ops);
  step.walk([&](PrecisionOpInterface op) {
    if (!hasChosenFormat(op))
      return;
    PrecisionAttr decision = op.getPrecisionAttr();
    PrecisionNode node;
    node.op = op;
    node.isPinned = decision && decision.isPin();
    node.rule = matcher.find(op);
    indices[op] = nodes.size();
    nodes.push_back(node);
  });
  addInputs();
  addReaders();
  for (unsigned i = 0, e = nodes.size(); i < e; ++i)
    settle(i);
}

void PrecisionGraph::addInputs() {
  firstInput.reserve(nodes.size() + 1);
  for (PrecisionNode &node : nodes) {
    firstInput.push_back(inputs.size());
    for (OpOperand &operand : node.op->getOpOperands()) {
      Value value = operand.get();
      if (node.op.getOperandFormat(operand.getOperandNumber()) !=
              FormatRole::Chosen ||
          matchPattern(value, m_Constant()))
        continue;
      PrecisionInput input{value, std::nullopt};
      if (auto result = dyn_cast<OpResult>(value)) {
        auto found = indices.find(result.getOwner());
        if (found != indices.end() &&
            nodes[found->second].op.getResultFormat(result.getResultNumber()) ==
                FormatRole::Chosen)
          input.producer = found->second;
      }
      inputs.push_back(input);
    }
  }
  firstInput.push_back(inputs.size());
}

void PrecisionGraph::addReaders() {
  firstReader.assign(nodes.size() + 1, 0);
  for (const PrecisionInput &input : inputs)
    if (input.producer)
      ++firstReader[*input.producer + 1];
  for (unsigned i = 0, e = nodes.size(); i < e; ++i)
    firstReader[i + 1] += firstReader[i];
  readers.resize(firstReader.back());
  std::vector<unsigned> next(firstReader.begin(), firstReader.end() - 1);
  for (unsigned i = 0, e = nodes.size(); i < e; ++i)
    for (const PrecisionInput &input : getInputs(i))
      if (input.producer)
        readers[next[*input.producer]++] = i;
}

std::optional<unsigned> PrecisionGraph::find(Operation *op) const {
  auto found = indices.find(op);
  return found == indices.end() ? std::nullopt : std::optional(found->second);
}

ArrayRef<PrecisionInput> PrecisionGraph::getInputs(unsigned node) const {
  return ArrayRef(inputs).slice(firstInput[node],
                                firstInput[node + 1] - firstInput[node]);
}

ArrayRef<unsigned> PrecisionGraph::getReaders(unsigned node) const {
  return ArrayRef(readers).slice(firstReader[node],
                                 firstReader[node + 1] - firstReader[node]);
}

FloatType PrecisionGraph::getSettledFormat(unsigned index) const {
  const PrecisionNode &node = nodes[index];
  bool waits = isa<SaveOp>(*node.op);
  return node.result && !waits ? node.result : node.compute;
}

void PrecisionGraph::setRule(unsigned index, const PolicyRule *rule) {
  nodes[index].rule = rule;
  settle(index);
  for (unsigned reader : getReaders(index))
    if (isa<SaveOp>(*nodes[reader].op))
      settle(reader);
}

void PrecisionGraph::setPin(unsigned index, bool isPinned) {
  nodes[index].isPinned = isPinned;
  settle(index);
}

void PrecisionGraph::settle(unsigned index) {
  PrecisionNode &node = nodes[index];
  node.precisionClass = node.op.getPrecisionClass();
  if (node.isPinned) {
    PrecisionAttr pin = node.op.getPrecisionAttr();
    node.compute = pin.getCompute();
    node.accumulate = pin.getAccumulate();
    node.result = pin.getResult();
    return;
  }
  PolicySettings settings = node.rule ? node.rule->settings : PolicySettings();
  node.savedRule = nullptr;
  if (isa<SaveOp>(*node.op) && !settings.result)
    // How a value waits is said where it is made.
    for (const PrecisionInput &input : getInputs(index))
      if (const PolicyRule *made =
              input.producer ? nodes[*input.producer].rule : nullptr;
          made && made->settings.saved) {
        node.savedRule = made;
        settings.result = made->settings.saved;
      }
  if (settings.precisionClass)
    node.precisionClass = *settings.precisionClass;
  node.compute = settings.compute;
  node.accumulate = settings.accumulate;
  node.result = settings.result;
}
