//===- Subgraphs.cpp - Graphs in attributes of nodes ----------------------===//

#include "binade/ONNX/Subgraphs.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

void mlir::binade::forEachGraph(const NodeProto &node,
                                function_ref<void(const GraphProto &)> visit) {
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g())
      visit(attribute.g());
    for (const GraphProto &inner : attribute.graphs())
      visit(inner);
  }
}

void mlir::binade::forEachNestedGraph(
    const GraphProto &graph, function_ref<void(const GraphProto &)> visit) {
  for (const NodeProto &node : graph.node())
    forEachGraph(node, [&](const GraphProto &inner) {
      visit(inner);
      forEachNestedGraph(inner, visit);
    });
}

bool mlir::binade::hasSubgraphs(const ::onnx::NodeProto &node) {
  bool holds = false;
  forEachGraph(node, [&](const ::onnx::GraphProto &) { holds = true; });
  return holds;
}

void mlir::binade::forEachRead(const ::onnx::NodeProto &node,
                               function_ref<void(const std::string &)> visit) {
  for (const std::string &name : node.input())
    visit(name);
  forEachGraph(node, [&](const ::onnx::GraphProto &graph) {
    llvm::StringSet<> own;
    for (const auto &input : graph.input())
      own.insert(input.name());
    for (const auto &tensor : graph.initializer())
      own.insert(tensor.name());
    for (const auto &tensor : graph.sparse_initializer())
      own.insert(tensor.values().name());
    for (const ::onnx::NodeProto &inner : graph.node())
      for (const std::string &name : inner.output())
        own.insert(name);
    auto visitOuter = [&](const std::string &name) {
      if (!own.contains(name))
        visit(name);
    };
    for (const ::onnx::NodeProto &inner : graph.node())
      forEachRead(inner, visitOuter);
    for (const auto &output : graph.output())
      visitOuter(output.name());
  });
}

llvm::StringSet<> mlir::binade::collectUsed(const ::onnx::GraphProto &graph,
                                            ArrayRef<unsigned> order) {
  llvm::StringSet<> used;
  for (unsigned index : order)
    forEachRead(graph.node(index),
                [&](const std::string &name) { used.insert(name); });
  for (const auto &output : graph.output())
    used.insert(output.name());
  return used;
}

static void collectRead(const GraphProto &graph, llvm::StringSet<> &names) {
  for (const NodeProto &node : graph.node())
    names.insert(node.input().begin(), node.input().end());
  for (const auto &output : graph.output())
    names.insert(output.name());
}

llvm::StringSet<>
mlir::binade::findReadOutside(const ::onnx::ModelProto &model) {
  llvm::StringSet<> names;
  auto addOutputs = [&](const GraphProto &graph) {
    for (const auto &output : graph.output())
      names.insert(output.name());
  };
  addOutputs(model.graph());
  forEachNestedGraph(model.graph(), addOutputs);
  for (const auto &training : model.training_info())
    for (const GraphProto *graph :
         {&training.initialization(), &training.algorithm()}) {
      collectRead(*graph, names);
      forEachNestedGraph(
          *graph, [&](const GraphProto &inner) { collectRead(inner, names); });
    }
  return names;
}

llvm::StringSet<> mlir::binade::findReadInside(const GraphProto &graph) {
  llvm::StringSet<> names;
  forEachNestedGraph(
      graph, [&](const GraphProto &inner) { collectRead(inner, names); });
  return names;
}
