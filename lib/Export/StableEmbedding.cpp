//===- StableEmbedding.cpp - Layer norms of stable embeddings -------------===//

#include "StableEmbedding.h"
#include "binade/Container/Json.h"
#include "binade/IR/Names.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::binade;
using nlohmann::ordered_json;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

/// The first operator set with LayerNormalization.
static constexpr int64_t kOpset = 17;

namespace {
class Adder {
public:
  Adder(Model &model, const llvm::StringMap<std::string> &owners)
      : model(model), graph(*model.getProto().mutable_graph()), owners(owners) {
  }

  LogicalResult run(llvm::function_ref<bool(StringRef)> hasValue) {
    for (int index = 0; index < graph.node_size(); ++index) {
      const NodeProto &node = graph.node(index);
      if (node.op_type() != "Gather")
        continue;
      auto owner = owners.find(node.input(0));
      std::string name = getEmbeddingNorm(
          owner == owners.end() ? node.input(0) : owner->second);
      bool isThere = findTensor(name + ".weight") && !added.contains(name);
      if (isThere || !hasValue(name + ".weight") || !hasValue(name + ".bias"))
        continue;
      if (model.getOpset() < kOpset)
        return model.emitError()
               << "has operator set " << model.getOpset() << "; the norm '"
               << name << "', which training added, needs at least " << kOpset
               << ": export the model with a newer one";
      addTensors(name, node.input(0));
      addNorm(name, index++);
    }
    return success();
  }

private:
  const TensorProto *findTensor(StringRef name) {
    for (const TensorProto &tensor : graph.initializer())
      if (StringRef(tensor.name()) == name)
        return &tensor;
    return nullptr;
  }

  /// Returns the length of a row of `table`.
  int64_t getColumns(StringRef table) {
    if (const TensorProto *tensor = findTensor(table))
      return tensor->dims(tensor->dims_size() - 1);
    for (const auto &input : graph.input())
      if (StringRef(input.name()) == table) {
        const auto &shape = input.type().tensor_type().shape();
        return shape.dim(shape.dim_size() - 1).dim_value();
      }
    return 0;
  }

  /// Adds the parameters of a norm, once for all lookups in a table.
  void addTensors(const std::string &name, StringRef table) {
    if (!added.insert(name).second)
      return;
    for (const char *suffix : {".weight", ".bias"}) {
      TensorProto &tensor = *graph.add_initializer();
      tensor.set_name(name + suffix);
      tensor.set_data_type(TensorProto::FLOAT);
      tensor.add_dims(getColumns(table));
      setTrainable(name + suffix);
    }
  }

  /// Adds `name` to the list of trained tensors, if the model has one.
  void setTrainable(const std::string &name) {
    for (auto &property : *model.getProto().mutable_metadata_props())
      if (property.key() == "binade.trainable") {
        ordered_json names = ordered_json::parse(property.value());
        names.push_back(name);
        property.set_value(names.dump());
      }
  }

  /// Adds a norm of the result of node `index` after the node.
  void addNorm(const std::string &name, int index) {
    NodeProto &norm = *graph.add_node();
    NodeProto &lookup = *graph.mutable_node(index);
    std::string rows = lookup.output(0) + ".rows";
    norm.set_op_type("LayerNormalization");
    norm.set_name(name);
    norm.add_input(rows);
    norm.add_input(name + ".weight");
    norm.add_input(name + ".bias");
    norm.add_output(lookup.output(0));
    lookup.set_output(0, rows);
    for (int place = graph.node_size() - 1; place > index + 1; --place)
      graph.mutable_node()->SwapElements(place, place - 1);
  }

  Model &model;
  GraphProto &graph;
  const llvm::StringMap<std::string> &owners;
  llvm::StringSet<> added; ///< The names of added norms.
};
} // namespace

LogicalResult mlir::binade::addStableEmbeddings(
    Model &model, const llvm::StringMap<std::string> &owners,
    llvm::function_ref<bool(StringRef)> hasValue) {
  return Adder(model, owners).run(hasValue);
}
