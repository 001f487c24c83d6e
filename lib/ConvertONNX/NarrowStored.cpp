//===- NarrowStored.cpp - Narrow formats of moved weights -----------------===//

#include "NarrowStored.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;
using ::onnx::TensorProto;

namespace {
class StoredMoves {
public:
  /// `outer` belongs to the enclosing graph, or is null.
  StoredMoves(const PlannedGraph &graph, const llvm::StringSet<> &outside,
              const StoredMoves *outer)
      : outside(outside), types(*graph.types), outer(outer) {
    for (const TensorProto &tensor : graph.graph->initializer())
      stored.insert(tensor.name());
    for (const auto &input : graph.graph->input())
      stored.erase(input.name());
  }

  void run(MutableArrayRef<PlannedNode> nodes) {
    for (PlannedNode &node : nodes)
      if (node.node->op_type() == "Constant" || movesStored(node))
        for (const std::string &name : node.node->output())
          stored.insert(name);
    // Visit readers of a value before its producer.
    for (PlannedNode &node : llvm::reverse(nodes)) {
      for (PlannedGraph &graph : node.graphs)
        runInside(graph);
      if (movesStored(node))
        narrow(node);
      noteReads(node);
    }
  }

private:
  /// The format in which all readers read a value, unless `differ`.
  struct Wanted {
    int32_t type;
    QuantizedInput codes;
    bool differ = false;
    SmallVector<std::pair<PlannedNode *, unsigned>, 1> readers = {};
  };

  bool isStored(StringRef name) const {
    return stored.contains(name) || (outer && outer->isStored(name));
  }

  /// Visits a subgraph, and notes the formats in which its nodes read values of
  /// this graph.
  void runInside(PlannedGraph &graph) {
    llvm::StringSet<> outputs, own;
    for (const auto &output : graph.graph->output())
      outputs.insert(output.name());
    StoredMoves moves(graph, outputs, this);
    moves.run(graph.nodes);
    for (const auto &input : graph.graph->input())
      own.insert(input.name());
    for (const TensorProto &tensor : graph.graph->initializer())
      own.insert(tensor.name());
    for (const PlannedNode &node : graph.nodes)
      own.insert(node.node->output().begin(), node.node->output().end());
    for (auto &[name, format] : moves.wanted)
      if (!own.contains(name))
        note(name, format);
  }

  bool movesStored(const PlannedNode &node) const {
    if (!node.isMovement || !node.isPlanned() || node.isNarrow() ||
        node.saved || node.savedType || node.node->output_size() != 1 ||
        outside.contains(node.node->output(0)))
      return false;
    return llvm::all_of(node.node->input(), [&](const std::string &name) {
      return types.get(name) != TensorProto::FLOAT || isStored(name);
    });
  }

  void narrow(PlannedNode &node) {
    auto found = wanted.find(node.node->output(0));
    if (found == wanted.end() || found->second.differ)
      return;
    const Wanted &format = found->second;
    if (format.codes)
      quantizeBeforeMove(node, format);
    else if (format.type != TensorProto::FLOAT &&
             node.schema->allows(node.letters.front(), format.type))
      setFormat(node, format.type);
  }

  static void setFormat(PlannedNode &node, int32_t type) {
    node.compute = node.operand = node.result = type;
    for (auto &entry : *node.node->mutable_metadata_props())
      if (entry.key() == kPrecisionKey)
        entry.set_value(
            (getFormatName(type) + " <- the readers of this moved tensor")
                .str());
  }

  /// Quantizes and dequantizes the operand of a move with a single scale,
  /// instead of its result.
  static void quantizeBeforeMove(PlannedNode &node, const Wanted &format) {
    bool hasOneScale = format.codes.block.empty() && !format.codes.isFlat;
    if (!hasOneScale || !node.movesAll)
      return;
    node.operands.assign(1, format.codes);
    node.isDequantized = true;
    for (auto [reader, input] : format.readers)
      reader->operands[input] = QuantizedInput();
  }

  void noteReads(PlannedNode &node) {
    for (auto [input, name] : llvm::enumerate(node.node->input()))
      note(name, {node.getRead(input),
                  node.getQuantized(input),
                  false,
                  {{&node, unsigned(input)}}});
  }

  void note(StringRef name, const Wanted &format) {
    auto [entry, isNew] = wanted.try_emplace(name, format);
    if (isNew)
      return;
    Wanted &known = entry->second;
    known.differ |= format.differ || known.type != format.type ||
                    !(known.codes == format.codes);
    known.readers.append(format.readers);
  }

  const llvm::StringSet<> &outside;
  const ElementTypes &types;
  const StoredMoves *outer;
  llvm::StringSet<> stored;
  llvm::StringMap<Wanted> wanted; ///< Keyed by value.
};
} // namespace

void mlir::binade::convert::narrowStoredMoves(
    PlannedGraph &graph, const llvm::StringSet<> &outside) {
  StoredMoves(graph, outside, nullptr).run(graph.nodes);
}
