//===- InlineFunctions.cpp - Functions of a model, in its graph -----------===//

#include "InlineFunctions.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::NodeProto;

/// Functions that call functions, and bytes of all nodes: a small file may
/// stand for more than memory holds.
static constexpr unsigned kDeepest = 32;
static constexpr size_t kMostBytes = size_t(128) << 20;

namespace {
using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;

class Inliner {
public:
  explicit Inliner(Model &model) : model(model) {
    for (const FunctionProto &function : model.getProto().functions())
      functions[getKey(function.domain(), function.name())] = &function;
  }
  LogicalResult run();

private:
  static std::string getKey(StringRef domain, StringRef name) {
    return (domain + Twine('\0') + name).str();
  }
  LogicalResult add(const NodeProto &node, const std::string &name,
                    unsigned depth);
  LogicalResult call(const FunctionProto &function, const NodeProto &node,
                     const std::string &name, unsigned depth);
  LogicalResult checkOpset(const FunctionProto &function,
                           const std::string &name);

  Model &model;
  llvm::StringMap<const FunctionProto *> functions;
  Nodes nodes;
  size_t bytes = 0;
};
} // namespace

LogicalResult Inliner::run() {
  ::onnx::GraphProto &graph = *model.getProto().mutable_graph();
  for (int index = 0; index < graph.node_size(); ++index)
    if (failed(
            add(graph.node(index), getNodeName(graph.node(index), index), 0)))
      return failure();
  graph.mutable_node()->Swap(&nodes);
  return success();
}

LogicalResult Inliner::add(const NodeProto &node, const std::string &name,
                           unsigned depth) {
  auto found = functions.find(getKey(node.domain(), node.op_type()));
  if (found != functions.end())
    return call(*found->second, node, name, depth);
  bytes += sizeof(NodeProto) + node.ByteSizeLong() + name.size();
  if (bytes > kMostBytes)
    return model.emitError("node " + quote(name))
           << "and those before it take more than " << (kMostBytes >> 20)
           << " MiB with all functions written out";
  *nodes.Add() = node;
  nodes.rbegin()->set_name(name);
  return success();
}

/// Nodes of a function are read in the operator set of the graph.
LogicalResult Inliner::checkOpset(const FunctionProto &function,
                                  const std::string &name) {
  for (const auto &set : function.opset_import())
    if ((set.domain().empty() || set.domain() == "ai.onnx") &&
        set.version() != model.getOpset())
      return model.emitError("node " + quote(name))
             << "calls function " << quote(function.name()) << " of opset "
             << set.version() << " in a graph of opset " << model.getOpset();
  return success();
}

LogicalResult Inliner::call(const FunctionProto &function,
                            const NodeProto &node, const std::string &name,
                            unsigned depth) {
  if (depth == kDeepest)
    return model.emitError("node " + quote(name))
           << "calls functions more than " << kDeepest << " deep";
  if (failed(checkOpset(function, name)))
    return failure();
  if (node.input_size() > function.input_size() ||
      node.output_size() > function.output_size())
    return model.emitError("node " + quote(name))
           << "has " << node.input_size() << " inputs and "
           << node.output_size() << " outputs, function "
           << quote(function.name()) << " has " << function.input_size()
           << " and " << function.output_size();
  llvm::StringMap<std::string> names;
  for (int i = 0; i < function.input_size(); ++i)
    names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty())
      names.try_emplace(function.output(i), node.output(i));
  auto rename = [&](std::string &value) {
    if (!value.empty())
      value = names.try_emplace(value, name + "/" + value).first->second;
  };
  llvm::StringMap<const AttributeProto *> attributes;
  for (const AttributeProto &attribute : function.attribute_proto())
    attributes[attribute.name()] = &attribute;
  for (const AttributeProto &attribute : node.attribute())
    attributes[attribute.name()] = &attribute;
  for (int index = 0; index < function.node_size(); ++index) {
    NodeProto inner = function.node(index);
    std::string inside = name + "/" + getNodeName(inner, index);
    for (std::string &value : *inner.mutable_input())
      rename(value);
    for (std::string &value : *inner.mutable_output())
      rename(value);
    // An attribute that names one which the caller has not is left out.
    NodeProto bound = inner;
    bound.clear_attribute();
    for (const AttributeProto &attribute : inner.attribute()) {
      if (attribute.ref_attr_name().empty()) {
        *bound.add_attribute() = attribute;
      } else if (auto given = attributes.find(attribute.ref_attr_name());
                 given != attributes.end()) {
        *bound.add_attribute() = *given->second;
        bound.mutable_attribute()->rbegin()->set_name(attribute.name());
      }
    }
    if (failed(add(bound, inside, depth + 1)))
      return failure();
  }
  return success();
}

LogicalResult mlir::binade::importer::inlineFunctions(Model &model) {
  if (model.getProto().functions().empty())
    return success();
  return Inliner(model).run();
}
