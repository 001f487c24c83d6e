//===- SkipUpdates.cpp - Skipping of updates on overflow ------------------===//

#include "SkipUpdates.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::NodeProto;

static constexpr StringLiteral kNew = "new.";

std::vector<Update>
mlir::binade::convert::findUpdates(const ::onnx::GraphProto &graph,
                                   const PlannedNodes &nodes,
                                   const llvm::BitVector &backward) {
  llvm::StringMap<int32_t> inputs;
  for (const auto &input : graph.input())
    inputs[input.name()] = input.type().tensor_type().elem_type();
  llvm::StringSet<> madeBackward, readForward;
  for (auto [index, node] : llvm::enumerate(nodes)) {
    if (backward.test(index))
      for (const std::string &name : node.node->output())
        madeBackward.insert(name);
    else
      for (const std::string &name : node.node->input())
        readForward.insert(name);
  }
  std::vector<Update> updates;
  bool hasParameter = false;
  for (const auto &output : graph.output()) {
    StringRef name = output.name();
    auto input = name.consume_front(kNew) ? inputs.find(name) : inputs.end();
    if (input == inputs.end() || !madeBackward.contains(output.name()) ||
        input->second != output.type().tensor_type().elem_type())
      continue;
    updates.push_back({name.str(), output.name()});
    hasParameter |= readForward.contains(name);
  }
  return hasParameter ? updates : std::vector<Update>();
}

void mlir::binade::convert::skipUpdates(ArrayRef<Update> updates,
                                        const std::string &found,
                                        PlannedNodes &nodes, UniqueNames &names,
                                        ElementTypes &types) {
  llvm::StringMap<std::string> updated;
  for (const Update &update : updates) {
    std::string &name = updated[update.after];
    name = names.makeNew(update.after + "_updated");
    types.set(name, types.get(update.after));
  }
  for (PlannedNode &node : nodes)
    for (auto *list : {node.node->mutable_input(), node.node->mutable_output()})
      for (std::string &name : *list)
        if (auto other = updated.find(name); other != updated.end())
          name = other->second;
  for (const Update &update : updates) {
    PlannedNode &added = nodes.emplace_back();
    added.node = std::make_unique<NodeProto>();
    added.node->set_op_type("Where");
    added.node->set_name(names.makeNew("Where_" + update.after));
    added.node->add_input(found);
    added.node->add_input(update.before);
    added.node->add_input(updated[update.after]);
    added.node->add_output(update.after);
  }
}
