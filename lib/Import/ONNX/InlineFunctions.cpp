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
  /// Inlines the calls among the nodes of `graph`.
  LogicalResult inlineInto(::onnx::GraphProto &graph, unsigned depth);
  /// Puts `node` behind `nodes` or, where it is a call, what it calls.
  LogicalResult add(const NodeProto &node, const std::string &name,
                    unsigned depth, Nodes &nodes);
  LogicalResult call(const FunctionProto &function, const NodeProto &node,
                     const std::string &name, unsigned depth, Nodes &nodes);
  LogicalResult checkOpset(const FunctionProto &function,
                           const std::string &name);

  Model &model;
  llvm::StringMap<const FunctionProto *> functions;
  size_t bytes = 0; ///< Of all nodes.
};

/// What is bound where a function is called.
struct Call {
  llvm::StringMap<std::string> names; ///< Of values, by those of the function.
  llvm::StringMap<const AttributeProto *> attributes;
  const std::string &prefix;

  void rename(std::string &value) {
    if (!value.empty())
      value = names.try_emplace(value, prefix + "/" + value).first->second;
  }
  void rewrite(NodeProto &node);
  void rewrite(::onnx::GraphProto &graph);
};
} // namespace

/// An attribute that names one which the caller has not is left out.
void Call::rewrite(NodeProto &node) {
  for (std::string &value : *node.mutable_input())
    rename(value);
  for (std::string &value : *node.mutable_output())
    rename(value);
  google::protobuf::RepeatedPtrField<AttributeProto> bound;
  for (AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.ref_attr_name().empty()) {
      if (attribute.has_g())
        rewrite(*attribute.mutable_g());
      for (::onnx::GraphProto &graph : *attribute.mutable_graphs())
        rewrite(graph);
      *bound.Add() = attribute;
    } else if (auto given = attributes.find(attribute.ref_attr_name());
               given != attributes.end()) {
      *bound.Add() = *given->second;
      bound.rbegin()->set_name(attribute.name());
    }
  }
  node.mutable_attribute()->Swap(&bound);
}

void Call::rewrite(::onnx::GraphProto &graph) {
  for (auto *values : {graph.mutable_input(), graph.mutable_output()})
    for (auto &value : *values)
      rename(*value.mutable_name());
  for (auto &tensor : *graph.mutable_initializer())
    rename(*tensor.mutable_name());
  for (NodeProto &node : *graph.mutable_node())
    rewrite(node);
}

LogicalResult Inliner::inlineInto(::onnx::GraphProto &graph, unsigned depth) {
  Nodes nodes;
  for (int index = 0; index < graph.node_size(); ++index)
    if (failed(add(graph.node(index), getNodeName(graph.node(index), index),
                   depth, nodes)))
      return failure();
  graph.mutable_node()->Swap(&nodes);
  return success();
}

LogicalResult Inliner::run() {
  return inlineInto(*model.getProto().mutable_graph(), 0);
}

LogicalResult Inliner::add(const NodeProto &node, const std::string &name,
                           unsigned depth, Nodes &nodes) {
  auto found = functions.find(getKey(node.domain(), node.op_type()));
  if (found != functions.end())
    return call(*found->second, node, name, depth, nodes);
  bytes += sizeof(NodeProto) + node.ByteSizeLong() + name.size();
  if (bytes > kMostBytes)
    return model.emitError("node " + quote(name))
           << "and those before it take more than " << (kMostBytes >> 20)
           << " MiB with all functions written out";
  NodeProto &copy = *nodes.Add();
  copy = node;
  copy.set_name(name);
  for (AttributeProto &attribute : *copy.mutable_attribute()) {
    if (attribute.has_g() && failed(inlineInto(*attribute.mutable_g(), depth)))
      return failure();
    for (::onnx::GraphProto &graph : *attribute.mutable_graphs())
      if (failed(inlineInto(graph, depth)))
        return failure();
  }
  return success();
}

/// Nodes of a function are read in the operator set of the graph.
LogicalResult Inliner::checkOpset(const FunctionProto &function,
                                  const std::string &name) {
  for (const auto &set : function.opset_import())
    if (isStandardDomain(set.domain()) && set.version() != model.getOpset())
      return model.emitError("node " + quote(name))
             << "calls function " << quote(function.name()) << " of opset "
             << set.version() << " in a graph of opset " << model.getOpset();
  return success();
}

LogicalResult Inliner::call(const FunctionProto &function,
                            const NodeProto &node, const std::string &name,
                            unsigned depth, Nodes &nodes) {
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
  Call bound{{}, {}, name};
  for (int i = 0; i < function.input_size(); ++i)
    bound.names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty())
      bound.names.try_emplace(function.output(i), node.output(i));
  for (const AttributeProto &attribute : function.attribute_proto())
    bound.attributes[attribute.name()] = &attribute;
  for (const AttributeProto &attribute : node.attribute())
    bound.attributes[attribute.name()] = &attribute;
  for (int index = 0; index < function.node_size(); ++index) {
    NodeProto inner = function.node(index);
    std::string inside = name + "/" + getNodeName(inner, index);
    bound.rewrite(inner);
    if (failed(add(inner, inside, depth + 1, nodes)))
      return failure();
  }
  return success();
}

LogicalResult mlir::binade::importer::inlineFunctions(Model &model) {
  if (model.getProto().functions().empty())
    return success();
  return Inliner(model).run();
}
