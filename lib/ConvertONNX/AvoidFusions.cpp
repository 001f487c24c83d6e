//===- AvoidFusions.cpp - Avoidance of wrong fusions ----------------------===//

#include "AvoidFusions.h"
#include "Formats.h"
#include "binade/ONNX/Subgraphs.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::binade::convert;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

namespace {
class LayerNorms {
public:
  explicit LayerNorms(const GraphProto &graph) {
    for (const NodeProto &node : graph.node())
      for (const std::string &name : node.output())
        producers[name] = &node;
  }

  /// Whether `node` adds the bias of a norm whose first node reads a cast.
  bool isLast(const NodeProto &node) const {
    const NodeProto *scaled = findInput(node, "Add", "Mul");
    const NodeProto *divided =
        scaled ? findInput(*scaled, "Mul", "Div") : nullptr;
    const NodeProto *centred =
        divided ? findInput(*divided, "Div", "Sub") : nullptr;
    return centred && findInput(*centred, "Sub", "Cast");
  }

private:
  /// If `node` is an `op`: its first input that a `maker` computes, looking
  /// through casts. Null otherwise.
  const NodeProto *findInput(const NodeProto &node, StringRef op,
                             StringRef maker) const {
    if (node.op_type() != op)
      return nullptr;
    for (const std::string &name : node.input()) {
      const NodeProto *found = producers.lookup(name);
      if (found && found->op_type() == "Cast" && maker != "Cast" &&
          found->input_size() == 1)
        found = producers.lookup(found->input(0));
      if (found && found->op_type() == maker)
        return found;
    }
    return nullptr;
  }

  llvm::StringMap<const NodeProto *> producers;
};
} // namespace

static void avoidIn(GraphProto &graph) {
  LayerNorms norms(graph);
  for (NodeProto &node : *graph.mutable_node()) {
    if (norms.isLast(node))
      node.set_op_type("Sum");
    forEachInferredGraph(
        node, nullptr,
        [](GraphProto &inner, const GraphProto *) { avoidIn(inner); });
  }
}

void mlir::binade::convert::avoidFusions(GraphProto &graph,
                                         const OperatorSets &sets) {
  // For operator sets without LayerNormalization, onnxruntime fuses into an op
  // of its own, which accepts a scale of another type.
  if (findSchema("", "LayerNormalization", sets))
    avoidIn(graph);
}

bool mlir::binade::convert::hasFp8Matmul(const GraphProto &graph) {
  llvm::StringSet<> decoded;
  for (const NodeProto &node : graph.node())
    if (node.op_type() == "DequantizeLinear" && node.output_size() > 0)
      decoded.insert(node.output(0));
  auto isDecoded = [&](const std::string &name) {
    return decoded.contains(name);
  };
  return llvm::any_of(graph.node(), [&](const NodeProto &node) {
    bool isFound =
        node.op_type() == "MatMul" && llvm::all_of(node.input(), isDecoded);
    forEachGraph(
        node, [&](const GraphProto &inner) { isFound |= hasFp8Matmul(inner); });
    return isFound;
  });
}
