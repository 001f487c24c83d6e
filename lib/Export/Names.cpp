//===- Names.cpp - Names of a graph's values ------------------------------===//

#include "Names.h"
#include "onnx-ml.pb.h"

using namespace mlir::binade::convert;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

void mlir::binade::convert::forEachGraph(
    const NodeProto &node, llvm::function_ref<void(const GraphProto &)> visit) {
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g())
      visit(attribute.g());
    for (const GraphProto &inner : attribute.graphs())
      visit(inner);
  }
}

/// Calls `visit` for the subgraphs of `graph`, at any depth.
static void walkInner(const GraphProto &graph,
                      llvm::function_ref<void(const GraphProto &)> visit) {
  for (const NodeProto &node : graph.node())
    forEachGraph(node, [&](const GraphProto &inner) {
      visit(inner);
      walkInner(inner, visit);
    });
}

static void collectRead(const GraphProto &graph, llvm::StringSet<> &names) {
  for (const NodeProto &node : graph.node())
    names.insert(node.input().begin(), node.input().end());
  for (const auto &output : graph.output())
    names.insert(output.name());
}

Names::Names(const ::onnx::ModelProto &model) {
  add(model.graph());
  walkInner(model.graph(), [&](const GraphProto &inner) { add(inner); });
}

void Names::add(const GraphProto &graph) {
  llvm::StringSet<> names;
  collectRead(graph, names);
  for (llvm::StringRef name : names.keys())
    known.try_emplace(name, 1);
  for (const auto &input : graph.input())
    known.try_emplace(input.name(), 1);
  for (const auto &tensor : graph.initializer())
    known.try_emplace(tensor.name(), 1);
  for (const auto &tensor : graph.sparse_initializer())
    known.try_emplace(tensor.values().name(), 1);
  for (const NodeProto &node : graph.node()) {
    known.try_emplace(node.name(), 1);
    for (const std::string &name : node.output())
      known.try_emplace(name, 1);
  }
}

std::string Names::makeNew(llvm::StringRef wanted) {
  auto [entry, isNew] = known.try_emplace(wanted, 1);
  unsigned &last = entry->second; // Entries stay where they are.
  std::string name = wanted.str();
  while (!isNew) {
    name = wanted.str() + "_" + std::to_string(++last);
    isNew = known.try_emplace(name, 1).second;
  }
  return name;
}

void mlir::binade::convert::forEachRead(
    const NodeProto &node,
    llvm::function_ref<void(const std::string &)> visit) {
  for (const std::string &name : node.input())
    visit(name);
  forEachGraph(node, [&](const GraphProto &inner) {
    for (const NodeProto &reader : inner.node())
      forEachRead(reader, visit);
    for (const auto &output : inner.output())
      visit(output.name());
  });
}

llvm::StringSet<>
mlir::binade::convert::findReadOutside(const ::onnx::ModelProto &model) {
  llvm::StringSet<> names;
  auto addOutputs = [&](const GraphProto &graph) {
    for (const auto &output : graph.output())
      names.insert(output.name());
  };
  addOutputs(model.graph());
  walkInner(model.graph(), addOutputs);
  for (const auto &training : model.training_info())
    for (const GraphProto *graph :
         {&training.initialization(), &training.algorithm()}) {
      collectRead(*graph, names);
      walkInner(*graph,
                [&](const GraphProto &inner) { collectRead(inner, names); });
    }
  return names;
}

llvm::StringSet<>
mlir::binade::convert::findReadInside(const GraphProto &graph) {
  llvm::StringSet<> names;
  walkInner(graph, [&](const GraphProto &inner) { collectRead(inner, names); });
  return names;
}
