//===- UniqueNames.cpp - Names that do not occur in a model ---------------===//

#include "binade/ONNX/UniqueNames.h"
#include "binade/ONNX/Subgraphs.h"
#include "onnx-ml.pb.h"

using namespace mlir::binade;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

UniqueNames::UniqueNames(const ::onnx::ModelProto &model) {
  add(model.graph());
  forEachNestedGraph(model.graph(),
                     [&](const GraphProto &inner) { add(inner); });
}

void UniqueNames::add(const GraphProto &graph) {
  for (const auto &input : graph.input())
    known.try_emplace(input.name(), 1);
  for (const auto &tensor : graph.initializer())
    known.try_emplace(tensor.name(), 1);
  for (const auto &tensor : graph.sparse_initializer())
    known.try_emplace(tensor.values().name(), 1);
  for (const auto &output : graph.output())
    known.try_emplace(output.name(), 1);
  for (const NodeProto &node : graph.node()) {
    known.try_emplace(node.name(), 1);
    for (const std::string &name : node.input())
      known.try_emplace(name, 1);
    for (const std::string &name : node.output())
      known.try_emplace(name, 1);
  }
}

std::string UniqueNames::makeNew(llvm::StringRef wanted) {
  auto [entry, isNew] = known.try_emplace(wanted, 1);
  unsigned &last = entry->second; // A StringMap does not move its entries.
  std::string name = wanted.str();
  while (!isNew) {
    name = wanted.str() + "_" + std::to_string(++last);
    isNew = known.try_emplace(name, 1).second;
  }
  return name;
}
