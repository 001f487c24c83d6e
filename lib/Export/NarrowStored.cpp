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
        for (const std::string &name : node.node->output())
          stored.insert(name);
    // Readers of a value before the node that makes it.
    for (PlannedNode &node : llvm::reverse(nodes)) {
      if (movesStored(node))
        narrow(node);
      noteReads(node);
    }
  }

private:
  /// The format that all readers of a value read it in, if they do not differ.
  struct Wanted {
    int32_t type;
    QuantizedInput codes;
    bool differ = false;
    SmallVector<std::pair<PlannedNode *, unsigned>, 1> readers = {};
  };

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
    auto found = wanted.find(node.node->output(0));
    if (found == wanted.end() || found->second.differ)
      return;
    const Wanted &format = found->second;
    if (format.codes)
      moveCodes(node, format);
    else if (format.type != TensorProto::FLOAT &&
             node.schema->allows(*node.letter, format.type))
      setFormat(node, format.type);
  }

  static void setFormat(PlannedNode &node, int32_t type) {
    node.compute = node.operand = node.result = type;
    for (auto &entry : *node.node->mutable_metadata_props())
      if (entry.key() == kPrecisionKey)
        entry.set_value(
            (getFormatName(type) + " <- what reads this moved tensor").str());
  }

  /// What codes with one scale stand for is moved in place of what they are
  /// made of.
  static void moveCodes(PlannedNode &node, const Wanted &format) {
    bool hasOneScale = format.codes.block.empty() && !format.codes.isFlat;
    if (!hasOneScale || !node.movesAll)
      return;
    node.operands.assign(1, format.codes);
    node.makesDecoded = true;
    for (auto [reader, input] : format.readers)
      reader->operands[input] = QuantizedInput();
  }

  void noteReads(PlannedNode &node) {
    for (auto [input, name] : llvm::enumerate(node.node->input())) {
      Wanted format{node.getRead(input), node.getQuantized(input)};
      auto [entry, isNew] = wanted.try_emplace(name, format);
      Wanted &known = entry->second;
      known.differ |=
          known.type != format.type || !(known.codes == format.codes);
      known.readers.push_back({&node, unsigned(input)});
    }
  }

  const llvm::StringSet<> &outside;
  const ElementTypes &types;
  llvm::StringSet<> stored;
  llvm::StringMap<Wanted> wanted; ///< Of values.
};
} // namespace

void mlir::binade::convert::narrowStoredMoves(const ::onnx::GraphProto &graph,
                                              const llvm::StringSet<> &outside,
                                              const ElementTypes &types,
                                              PlannedNodes &nodes) {
  StoredMoves(graph, outside, types).run(nodes);
}
