//===- InlineFunctions.cpp - Inlining of model functions ------------------===//

#include "InlineFunctions.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringSet.h"
#include <set>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::NodeProto;

/// Limits of the depth of calls and the size of all nodes: inlining can expand
/// a small file to more than memory holds.
static constexpr unsigned kMaxCallDepth = 32;
static constexpr size_t kMaxInlinedBytes = size_t(128) << 20;

namespace {
using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;

class Inliner {
public:
  /// Calls of functions that import other operator sets than the graph remain
  /// if `leavesForeign`; otherwise they are errors.
  Inliner(Model &model, bool leavesForeign)
      : model(model), leavesForeign(leavesForeign) {
    for (const FunctionProto &function : model.getProto().functions())
      functions[getKey(function.domain(), function.name())] = &function;
    for (const auto &set : model.getProto().opset_import())
      sets.try_emplace(set.domain(), set.version());
    collectNames(model.getGraph());
  }
  LogicalResult run();

  /// Returns a name that no value has yet, `wanted` if possible.
  std::string makeName(const std::string &wanted);

private:
  static std::string getKey(StringRef domain, StringRef name) {
    return (domain + Twine('\0') + name).str();
  }
  /// Inlines the calls among the nodes of `graph`.
  LogicalResult inlineInto(::onnx::GraphProto &graph, unsigned depth);
  /// Appends `node` to `nodes` or, if it is a call, the nodes of the function.
  LogicalResult add(const NodeProto &node, const std::string &name,
                    unsigned depth, Nodes &nodes);
  LogicalResult call(const FunctionProto &function, const NodeProto &node,
                     const std::string &name, unsigned depth, Nodes &nodes);
  LogicalResult checkOpset(const FunctionProto &function,
                           const std::string &name);
  bool isForeign(const FunctionProto &function) const;
  void collectNames(const ::onnx::GraphProto &graph);

  Model &model;
  bool leavesForeign;
  llvm::StringMap<const FunctionProto *> functions;
  llvm::StringMap<int64_t> sets; ///< Versions by domain.
  llvm::StringSet<> names;       ///< Names of values in all graphs.
  size_t bytes = 0;              ///< The size of all nodes.
};

/// The bindings of a call: names of values and attributes.
struct Call {
  /// Maps the function's names of values to the caller's.
  llvm::StringMap<std::string> names;
  llvm::StringMap<const AttributeProto *> attributes;
  const std::string &prefix;
  Inliner &inliner;

  void rename(std::string &value) {
    if (value.empty())
      return;
    auto [entry, isNew] = names.try_emplace(value);
    if (isNew)
      entry->second = inliner.makeName(prefix + "/" + value);
    value = entry->second;
  }
  void rewrite(NodeProto &node);
  void rewrite(::onnx::GraphProto &graph);
};
} // namespace

/// An attribute that refers to one that the call does not set is removed.
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

void Inliner::collectNames(const ::onnx::GraphProto &graph) {
  for (const auto *values : {&graph.input(), &graph.output()})
    for (const auto &value : *values)
      names.insert(value.name());
  for (const auto &tensor : graph.initializer())
    names.insert(tensor.name());
  for (const NodeProto &node : graph.node()) {
    for (const std::string &name : node.output())
      names.insert(name);
    for (const AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g())
        collectNames(attribute.g());
      for (const ::onnx::GraphProto &inner : attribute.graphs())
        collectNames(inner);
    }
  }
}

std::string Inliner::makeName(const std::string &wanted) {
  std::string name = wanted;
  for (unsigned number = 2; !names.insert(name).second; ++number)
    name = wanted + "_" + std::to_string(number);
  return name;
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
  bool isCall =
      found != functions.end() && !(leavesForeign && isForeign(*found->second));
  if (isCall)
    return call(*found->second, node, name, depth, nodes);
  bytes += sizeof(NodeProto) + node.ByteSizeLong() + name.size();
  if (bytes > kMaxInlinedBytes)
    return model.emitUnsupported("node " + quote(name))
           << "and those before it take more than " << (kMaxInlinedBytes >> 20)
           << " MiB with all functions inlined";
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

/// Whether the function's nodes have no or another meaning under the operator
/// sets of the graph.
bool Inliner::isForeign(const FunctionProto &function) const {
  return llvm::any_of(function.opset_import(), [&](const auto &set) {
    if (isStandardDomain(set.domain()))
      return set.version() != model.getOpset();
    auto known = sets.find(set.domain());
    return known == sets.end() || known->second != set.version();
  });
}

/// Fails unless the function uses the graph's version of ONNX's operator set,
/// by which its inlined nodes are read.
LogicalResult Inliner::checkOpset(const FunctionProto &function,
                                  const std::string &name) {
  for (const auto &set : function.opset_import())
    if (isStandardDomain(set.domain()) && set.version() != model.getOpset())
      return model.emitUnsupported("node " + quote(name))
             << "calls function " << quote(function.name()) << " of opset "
             << set.version() << " in a graph of opset " << model.getOpset();
  return success();
}

LogicalResult Inliner::call(const FunctionProto &function,
                            const NodeProto &node, const std::string &name,
                            unsigned depth, Nodes &nodes) {
  if (depth == kMaxCallDepth)
    return model.emitUnsupported("node " + quote(name))
           << "calls functions more than " << kMaxCallDepth << " deep";
  if (failed(checkOpset(function, name)))
    return failure();
  if (node.input_size() > function.input_size() ||
      node.output_size() > function.output_size())
    return model.emitError("node " + quote(name))
           << "has " << node.input_size() << " inputs and "
           << node.output_size() << " outputs, but function "
           << quote(function.name()) << " has " << function.input_size()
           << " and " << function.output_size();
  Call bound{{}, {}, name, *this};
  for (int i = 0; i < function.input_size(); ++i)
    bound.names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
  // An output that is an input of the function, or repeats an output, becomes a
  // copy.
  std::vector<std::pair<std::string, std::string>> copies;
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty() &&
        !bound.names.try_emplace(function.output(i), node.output(i)).second)
      copies.push_back({function.output(i), node.output(i)});
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
  for (auto [from, to] : copies) {
    NodeProto &copy = *nodes.Add();
    copy.set_op_type("Identity");
    copy.set_name(name + "/" + to);
    bound.rename(from);
    copy.add_input(from);
    copy.add_output(to);
  }
  return success();
}

LogicalResult mlir::binade::importer::inlineFunctions(Model &model) {
  if (model.getProto().functions().empty())
    return success();
  return Inliner(model, /*leavesForeign=*/false).run();
}

//===----------------------------------------------------------------------===//
// Inlining before conversion
//===----------------------------------------------------------------------===//

using Keys = std::set<std::pair<std::string, std::string>>;

static void collectOps(const Nodes &nodes, Keys &ops) {
  for (const NodeProto &node : nodes) {
    ops.insert({node.domain(), node.op_type()});
    for (const AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g())
        collectOps(attribute.g().node(), ops);
      for (const ::onnx::GraphProto &graph : attribute.graphs())
        collectOps(graph.node(), ops);
    }
  }
}

/// Removes functions that are no longer called.
static void removeFunctions(::onnx::ModelProto &model) {
  Keys called;
  collectOps(model.graph().node(), called);
  for (bool isChanged = true; isChanged;) {
    size_t before = called.size();
    for (const FunctionProto &function : model.functions())
      if (called.count({function.domain(), function.name()}))
        collectOps(function.node(), called);
    isChanged = called.size() != before;
  }
  google::protobuf::RepeatedPtrField<FunctionProto> kept;
  for (FunctionProto &function : *model.mutable_functions())
    if (called.count({function.domain(), function.name()}))
      *kept.Add() = std::move(function);
  model.mutable_functions()->Swap(&kept);
}

LogicalResult mlir::binade::importer::inlineForConversion(Model &model) {
  if (failed(Inliner(model, /*leavesForeign=*/true).run()))
    return failure();
  removeFunctions(model.getProto());
  return success();
}
