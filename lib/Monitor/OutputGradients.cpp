//===- OutputGradients.cpp - Gradients of the outputs of nodes ------------===//

#include "OutputGradients.h"
#include "binade/IR/Build.h"
#include "binade/IR/HadamardOp.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Names.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the value from which `value` was moved, cast, transformed or
/// quantized.
static Value getSource(Value value) {
  while (true) {
    Value from = getMoved(value);
    if (auto quantize = value.getDefiningOp<QuantizeOp>())
      from = quantize.getX();
    if (auto transform = value.getDefiningOp<HadamardOp>())
      from = transform.getX();
    if (!from)
      return value;
    value = from;
  }
}

namespace {
class Finder {
public:
  Finder(func::FuncOp step, const NodeOutputs &outputs)
      : step(step), outputs(outputs) {}

  NodeOutputs run() {
    collectGradients();
    for (Operation &op : step.front().without_terminator())
      if (isBackward(&op))
        visit(&op);
    for (const auto &[node, output] : outputs)
      if (!entering.contains(node) && !hasOps.contains(node))
        propagate(node, output);
    NodeOutputs found;
    for (const auto &[node, output] : outputs)
      if (Value gradient = entering.lookup(node);
          gradient && getNumElements(gradient) == getNumElements(output))
        found[node] = gradient;
    return found;
  }

private:
  static bool isBackward(Operation *op) {
    return getPhase(op) == Phase::Backward;
  }

  /// Collects the values that depend on the seed of the gradients. A graph that
  /// was imported with its gradients has no seed: all its backward values
  /// count.
  void collectGradients() {
    bool hasSeed = !step.getOps<GradientSeedOp>().empty();
    for (Operation &op : step.front().without_terminator()) {
      if (!isBackward(&op))
        continue;
      bool isGradient = isa<GradientSeedOp>(op) || !hasSeed ||
                        llvm::any_of(op.getOperands(), [&](Value x) {
                          return gradients.contains(x);
                        });
      if (isGradient)
        gradients.insert_range(op.getResults());
    }
  }

  void visit(Operation *op) {
    StringRef node = getNodeName(op);
    if (node.empty() || !outputs.contains(node) || hasOps.contains(node))
      return;
    SmallVector<Value> foreign;
    for (Value operand : op->getOperands()) {
      Value source = getSource(operand);
      if (gradients.contains(source) && !llvm::is_contained(foreign, source) &&
          (getNodeName(source.getDefiningOp()) != node ||
           isa<GradientSeedOp>(source.getDefiningOp())))
        foreign.push_back(source);
    }
    // A cast or view of the gradient, whose users belong to another node.
    if (foreign.empty() || getSource(op->getResult(0)) == foreign.front())
      return;
    // The sum of several gradients of one value has the name of a node that
    // reads the value.
    if (foreign.size() > 1)
      return;
    hasOps.insert(node);
    if (!isa<GradientSeedOp>(foreign.front().getDefiningOp()))
      entering[node] = foreign.front();
  }

  /// Returns the value from which `value` was moved or cast, if no other op of
  /// the forward pass reads it or an intermediate value.
  static Value getOnlyRead(Value value) {
    while (value) {
      unsigned readers = llvm::count_if(value.getUsers(), [](Operation *user) {
        return getPhase(user) == Phase::Forward &&
               !isa<SaveOp, func::ReturnOp>(user);
      });
      if (readers != 1)
        return {};
      Value from = getMoved(value);
      if (!from)
        return value;
      value = from;
    }
    return {};
  }

  /// The gradient of a node's output equals that of an operand that only this
  /// node reads.
  void propagate(StringRef node, Value output) {
    for (Value operand : output.getDefiningOp()->getOperands()) {
      Value made = getOnlyRead(operand);
      if (!made || !made.getDefiningOp())
        continue;
      StringRef other = getNodeName(made.getDefiningOp());
      auto known = outputs.find(other);
      Value gradient = entering.lookup(other);
      if (known == outputs.end() || known->second != made || !gradient ||
          getNumElements(made) != getNumElements(output))
        continue;
      entering[node] = gradient;
      return;
    }
  }

  func::FuncOp step;
  const NodeOutputs &outputs;
  DenseSet<Value> gradients;
  /// The gradient that the first backward op of a node reads.
  llvm::DenseMap<StringRef, Value> entering;
  /// Nodes with backward ops.
  DenseSet<StringRef> hasOps;
};
} // namespace

NodeOutputs mlir::binade::findOutputGradients(func::FuncOp step,
                                              const NodeOutputs &outputs) {
  return Finder(step, outputs).run();
}
