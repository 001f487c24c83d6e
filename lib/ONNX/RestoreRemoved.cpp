//===- RestoreRemoved.cpp - Nodes that PyTorch's exporter removed --------===//

#include "RestoreRemoved.h"
#include "binade/ONNX/UniqueNames.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::NodeProto;

namespace {
class RemovedRestorer {
public:
  RemovedRestorer(Model &model, const TorchSignature &signature);

  LogicalResult run();

private:
  struct Input {
    int node, index;
    StringRef name;
  };

  bool isRemoved(StringRef value) const;
  bool isRemovedDetach(StringRef value) const;
  bool hasNoCopies(StringRef value) const;
  SmallVector<Input> getInputs(const TorchCallNodes &group) const;
  LogicalResult restore(const TorchCallNodes &group);
  LogicalResult checkMerged(const TorchCallNodes &group,
                            ArrayRef<StringRef> values,
                            ArrayRef<Input> inputs) const;
  LogicalResult restoreDetached(const TorchCallNodes &group,
                                ArrayRef<StringRef> values,
                                ArrayRef<Input> inputs);
  void detach(const Input &input);
  void insertAdded();

  Model &model;
  const ::onnx::GraphProto &graph;
  const TorchSignature &signature;
  UniqueNames names;
  /// Values that nodes compute, or that are inputs, and initializers.
  llvm::StringSet<> computed, constants;
  /// Computed values that depend on a dropout or on a removed `detach()`: with
  /// another one, an equal node would have another value or gradient.
  llvm::StringSet<> unsafe;
  /// Lines of the traced program.
  std::vector<TorchCallNodes> groups;
  /// For each value, how many lines read it, and how many of them have nodes.
  llvm::StringMap<unsigned> users, readers;
  /// Identity nodes, by the index of the node that reads them.
  std::multimap<int, NodeProto> added;
};
} // namespace

RemovedRestorer::RemovedRestorer(Model &model, const TorchSignature &signature)
    : model(model), graph(std::as_const(model).getGraph()),
      signature(signature), names(model.getProto()),
      groups(groupTorchCalls(graph)) {
  for (const auto &input : graph.input())
    computed.insert(input.name());
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      computed.insert(output);
  for (const auto &tensor : graph.initializer())
    constants.insert(tensor.name());
  for (const NodeProto &node : graph.node()) {
    auto isUnsafe = [&](StringRef input) { return unsafe.contains(input); };
    auto isDetach = [&](StringRef value) { return isRemovedDetach(value); };
    if (node.op_type() == "Dropout" || llvm::any_of(node.input(), isUnsafe) ||
        llvm::any_of(getTorchCall(node).getValues(), isDetach))
      for (const std::string &output : node.output())
        unsafe.insert(output);
    // Lines about parts of the results of a dropout have no nodes.
    if (node.op_type() == "Dropout")
      users[node.output(0)] = 0;
  }
  for (const TorchCallNodes &group : groups) {
    users[group.call.result] = group.call.users;
    SmallVector<StringRef> values = group.call.getValues();
    for (StringRef value :
         llvm::SmallSetVector<StringRef, 4>(values.begin(), values.end()))
      ++readers[value];
  }
}

/// Whether the line that computes `value` has no nodes in the file.
bool RemovedRestorer::isRemoved(StringRef value) const {
  return !computed.contains(value) && !constants.contains(value) &&
         !signature.findPlaceholder(value) && !signature.isBoundary(value);
}

/// Whether `value` is the result of a `detach()` without a node.
bool RemovedRestorer::isRemovedDetach(StringRef value) const {
  return isRemoved(value) && getTracedFunction(value) == "detach";
}

/// Whether `value` cannot be the operand of a removed line of the same function
/// that returned it unchanged, such as a view of a view: the function is not of
/// this kind, or all lines that read `value` have nodes.
bool RemovedRestorer::hasNoCopies(StringRef value) const {
  constexpr StringRef kCopying[] = {
      "view",  "_unsafe_view", "reshape",   "expand",  "clone",   "alias",
      "slice", "_to_copy",     "transpose", "permute", "squeeze", "getitem",
      "add",   "sub",          "mul",       "div",     "cat",     "pad"};
  if (!llvm::is_contained(kCopying, getTracedFunction(value)))
    return true;
  auto found = users.find(value);
  return found != users.end() && readers.lookup(value) >= found->second;
}

/// Returns the inputs of the nodes of `group` that nodes of other lines, or the
/// batch, compute.
SmallVector<RemovedRestorer::Input>
RemovedRestorer::getInputs(const TorchCallNodes &group) const {
  llvm::StringSet<> own;
  for (int index : group.nodes)
    for (const std::string &output : graph.node(index).output())
      own.insert(output);
  SmallVector<Input> inputs;
  for (int node : group.nodes)
    for (auto [index, name] : llvm::enumerate(graph.node(node).input()))
      if (computed.contains(name) && !own.contains(name))
        inputs.push_back({node, static_cast<int>(index), name});
  return inputs;
}

LogicalResult RemovedRestorer::restore(const TorchCallNodes &group) {
  SmallVector<StringRef> values;
  for (StringRef value : group.call.getValues())
    if (!constants.contains(value) && !signature.findPlaceholder(value))
      values.push_back(value);
  if (llvm::none_of(values, [&](StringRef v) { return isRemoved(v); }))
    return success();
  SmallVector<Input> inputs = getInputs(group);
  return success(succeeded(checkMerged(group, values, inputs)) &&
                 succeeded(restoreDetached(group, values, inputs)));
}

/// Fails if a node reads an unsafe value where its line reads another result of
/// the same function, which is not in the file.
LogicalResult RemovedRestorer::checkMerged(const TorchCallNodes &group,
                                           ArrayRef<StringRef> values,
                                           ArrayRef<Input> inputs) const {
  SmallVector<StringRef> known;
  for (StringRef value : values)
    if (!isRemoved(value))
      known.push_back(value);
  for (const Input &input : inputs) {
    auto *found = llvm::find(known, input.name);
    if (found != known.end()) {
      known.erase(found);
      continue;
    }
    if (!unsafe.contains(input.name) || !hasNoCopies(input.name))
      continue;
    for (StringRef value : values) {
      if (!isRemoved(value) ||
          getTracedFunction(value) != getTracedFunction(input.name))
        continue;
      InFlightDiagnostic error =
          mlir::emitError(model.getLoc(graph.node(input.node), input.node));
      error << "reads " << quote(input.name)
            << ", with which the exporter's optimizer merged " << quote(value)
            << ", although each may depend on its own dropout or detach()";
      error.attachNote() << "torch.onnx.export(..., optimize=False) and binade "
                            "from-torch keep both";
      return error;
    }
  }
  return success();
}

LogicalResult RemovedRestorer::restoreDetached(const TorchCallNodes &group,
                                               ArrayRef<StringRef> values,
                                               ArrayRef<Input> inputs) {
  if (llvm::none_of(values, [&](StringRef v) { return isRemovedDetach(v); }))
    return success();
  // A value that is in the file is read under its name.
  auto agree = [&](auto pair) {
    auto [input, value] = pair;
    return !computed.contains(value) || input.name == value;
  };
  if (inputs.size() != values.size() ||
      !llvm::all_of(llvm::zip(inputs, values), agree)) {
    int first = group.nodes.front();
    InFlightDiagnostic error =
        mlir::emitError(model.getLoc(graph.node(first), first));
    error << "reads a result of detach(), which the exporter's optimizer "
             "removed";
    error.attachNote() << "torch.onnx.export(..., optimize=False) and binade "
                          "from-torch keep it";
    return error;
  }
  for (auto [input, value] : llvm::zip(inputs, values))
    if (isRemovedDetach(value))
      detach(input);
  return success();
}

void RemovedRestorer::detach(const Input &input) {
  NodeProto &reader =
      *model.getProto().mutable_graph()->mutable_node(input.node);
  NodeProto identity;
  identity.set_op_type("Identity");
  identity.set_name(names.makeNew(reader.name() + "_detach"));
  identity.add_input(input.name.str());
  identity.add_output(names.makeNew(input.name.str() + ".detached"));
  constexpr StringRef kScopes = "pkg.torch.onnx.name_scopes";
  for (auto [key, value] :
       {std::pair(StringRef("binade.detached"), StringRef("true")),
        std::pair(kScopes, findMetadata(reader, kScopes))}) {
    auto &entry = *identity.add_metadata_props();
    entry.set_key(key.str());
    entry.set_value(value.str());
  }
  reader.set_input(input.index, identity.output(0));
  added.emplace(input.node, std::move(identity));
}

/// Inserts each added node before the node that reads it.
void RemovedRestorer::insertAdded() {
  auto &nodes = *model.getProto().mutable_graph()->mutable_node();
  std::vector<NodeProto *> old(nodes.size());
  nodes.ExtractSubrange(0, nodes.size(), old.data());
  for (auto [index, node] : llvm::enumerate(old)) {
    auto [begin, end] = added.equal_range(static_cast<int>(index));
    for (auto &entry : llvm::make_range(begin, end))
      *nodes.Add() = std::move(entry.second);
    nodes.AddAllocated(node);
  }
}

LogicalResult RemovedRestorer::run() {
  for (const TorchCallNodes &group : groups)
    if (failed(restore(group)))
      return failure();
  if (!added.empty())
    insertAdded();
  return success();
}

LogicalResult mlir::binade::restoreRemoved(Model &model,
                                           const TorchSignature &signature) {
  return RemovedRestorer(model, signature).run();
}
