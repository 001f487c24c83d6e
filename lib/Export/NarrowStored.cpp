//===- NarrowStored.cpp - Stored tensors that are moved first -------------===//

#include "NarrowStored.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::TensorProto;

namespace {
class StoredMoves {
public:
  StoredMoves(const ::onnx::GraphProto &graph, const llvm::StringSet<> &outside,
              const ElementTypes &types)
      : outside(outside), types(types) {
    for (const TensorProto &tensor : graph.initializer())
      stored.insert(tensor.name());
    for (const auto &input : graph.input())
      stored.erase(input.name());
  }

  void run(MutableArrayRef<PlannedNode> nodes) {
    for (PlannedNode &node : nodes)
      if (node.node->op_type() == "Constant" || movesStored(node))
        stored.insert(node.node->output(0));
    // Readers of a value before the node that makes it.
    for (PlannedNode &node : llvm::reverse(nodes)) {
      if (movesStored(node))
        narrow(node);
      noteReads(node);
    }
  }

private:
  bool movesStored(const PlannedNode &node) const {
    if (!node.isMovement || !node.letter || node.isNarrow() || node.waiting ||
        node.waitingType || node.node->output_size() != 1 ||
        outside.contains(node.node->output(0)))
      return false;
    return llvm::all_of(node.node->input(), [&](const std::string &name) {
      return types.get(name) != TensorProto::FLOAT || stored.contains(name);
    });
  }

  void narrow(PlannedNode &node) {
    auto format = wanted.find(node.node->output(0));
    if (format == wanted.end() || format->second == TensorProto::UNDEFINED ||
        !node.schema->allows(*node.letter, format->second))
      return;
    node.compute = node.operand = node.result = format->second;
    for (auto &entry : *node.node->mutable_metadata_props())
      if (entry.key() == kPrecisionKey)
        entry.set_value(
            (getFormatName(format->second) + " <- what reads this moved tensor")
                .str());
  }

  void noteReads(const PlannedNode &node) {
    for (auto [input, name] : llvm::enumerate(node.node->input())) {
      int32_t format = node.getQuantized(input)
                           ? int32_t(TensorProto::UNDEFINED)
                           : node.getRead(input);
      auto [known, isNew] = wanted.try_emplace(name, format);
      if (known->second != format)
        known->second = TensorProto::UNDEFINED;
    }
  }

  const llvm::StringSet<> &outside;
  const ElementTypes &types;
  llvm::StringSet<> stored;
  /// What all readers of a value want; undefined where they differ.
  llvm::StringMap<int32_t> wanted;
};
} // namespace

void mlir::binade::convert::narrowStoredMoves(const ::onnx::GraphProto &graph,
                                              const llvm::StringSet<> &outside,
                                              const ElementTypes &types,
                                              PlannedNodes &nodes) {
  StoredMoves(graph, outside, types).run(nodes);
}
