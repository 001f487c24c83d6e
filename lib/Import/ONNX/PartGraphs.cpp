//===- PartGraphs.cpp - Import of subgraphs for conversion ----------------===//
// Imports a subgraph once, on placeholders for its inputs, so that formats can
// be decided for its nodes. The results of the outer node have the types of the
// subgraph's outputs.
//===----------------------------------------------------------------------===//

#include "Node.h"
#include "PartImporter.h"
#include "binade/IR/Diagnostics.h"
#include "binade/ONNX/Order.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;
using ::onnx::AttributeProto;
using ::onnx::NodeProto;

static const AttributeProto *findAttribute(const NodeProto &node,
                                           StringRef name) {
  auto found = llvm::find_if(node.attribute(), [&](const auto &attribute) {
    return attribute.name() == name;
  });
  return found == node.attribute().end() ? nullptr : &*found;
}

namespace {
/// The order of carried and stacked values among the inputs and outputs of a
/// loop.
struct Loop {
  explicit Loop(const NodeProto &node) {
    if (node.op_type() == "Loop") {
      isLoop = true;
      firstInput = 2;
      firstOutput = 1;
      carried = std::max(node.input_size() - 2, 0);
    } else if (node.op_type() == "Scan") {
      const auto *scanned = findAttribute(node, "num_scan_inputs");
      int64_t count = scanned ? scanned->i() : 0;
      carried =
          std::clamp<int64_t>(node.input_size() - count, 0, node.input_size());
      isLoop = hasSlices = true;
    }
  }

  int firstInput = 0, firstOutput = 0, carried = 0;
  bool isLoop = false, hasSlices = false;
};
} // namespace

/// Returns entry `index` of an attribute that lists axes, counted from the
/// first axis.
static int64_t getAxis(const NodeProto &node, StringRef name, int64_t index,
                       int64_t rank) {
  const auto *axes = findAttribute(node, name);
  int64_t axis = axes && index < axes->ints_size() ? axes->ints(index) : 0;
  return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0,
                             std::max<int64_t>(rank - 1, 0));
}

/// Returns the type of an entry of `type` along `axis`, without that axis.
static RankedTensorType dropAxis(RankedTensorType type, int64_t axis) {
  if (type.getRank() == 0)
    return {};
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  return type.clone(shape);
}

static RankedTensorType addAxis(RankedTensorType type, int64_t axis) {
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin() + axis, kAssumedLength);
  return type.clone(shape);
}

/// Defines the inputs of a subgraph, with their declared types or, in a loop,
/// those of the initial values.
void PartImporter::defineInputs(Graph &graph, const Level &level,
                                const NodeProto &node) {
  Loop loop(node);
  const auto &inputs =
      level.inferred ? level.inferred->input() : level.graph.input();
  for (auto [index, input] : llvm::enumerate(inputs)) {
    int place = static_cast<int>(index);
    bool isGiven =
        loop.isLoop && place >= loop.firstInput && place < node.input_size();
    Known given = getKnown(isGiven ? graph.find(node.input(place)) : nullptr);
    if (given.tensor && loop.hasSlices && place >= loop.carried)
      given.tensor = dropAxis(given.tensor, getAxis(node, "scan_input_axes",
                                                    place - loop.carried,
                                                    given.tensor.getRank()));
    if (RankedTensorType type = getType(input, given.tensor))
      given.tensor = type;
    addStandIn(graph, input.name(), given);
  }
}

/// Imports a subgraph and returns the types of its outputs; none if its nodes
/// form a cycle.
PartImporter::Types PartImporter::importGraph(Graph &graph, Level &level,
                                              const NodeProto &node,
                                              const Twine &prefix) {
  const ::onnx::GraphProto &body = level.graph;
  DiagnosticCollector ignored(model.getContext());
  auto isOuter = [&](StringRef) { return true; };
  FailureOr<SmallVector<unsigned>> sorted = sortNodes(model, body, isOuter);
  if (failed(sorted))
    return {};
  level.order = *sorted;
  level.used = collectUsed(body, level.order);
  Graph::Scope scope(graph, prefix, level.used);
  ImplicitLocOpBuilder b(
      NameLoc::get(StringAttr::get(model.getContext(), prefix.str())),
      model.getContext());
  b.setInsertionPoint(function.front().getTerminator());
  for (const auto &tensor : body.initializer()) {
    FailureOr<TypedAttr> value =
        tensors.readConstant(b.getLoc(), tensor, std::nullopt);
    if (succeeded(value))
      graph.define(tensor.name(), ConstantOp::create(b, *value));
  }
  defineInputs(graph, level, node);
  importNodes(graph, level);
  Types types;
  for (const auto &output : body.output()) {
    keep(graph, output.name());
    types.push_back(getKnown(graph.find(output.name())));
  }
  return types;
}

/// Returns the branch that a constant condition selects; empty if the condition
/// is not constant.
static StringRef getChosen(Graph &graph, const NodeProto &node) {
  Value condition =
      node.input().empty() ? Value() : graph.lookup(node.input(0));
  DenseElementsAttr elements =
      condition ? getElements(condition) : DenseElementsAttr();
  if (!elements || !elements.getElementType().isInteger(1) ||
      elements.getNumElements() != 1)
    return "";
  return *elements.getValues<bool>().begin() ? "then_branch" : "else_branch";
}

/// Returns a type for a value that has one of two types: lengths that differ
/// become `kAssumedLength`. Null if ranks or element types differ.
static RankedTensorType mergeTypes(RankedTensorType lhs, RankedTensorType rhs) {
  if (!lhs || !rhs || lhs.getRank() != rhs.getRank() ||
      lhs.getElementType() != rhs.getElementType())
    return {};
  SmallVector<int64_t> shape(lhs.getShape());
  for (auto [length, other] : llvm::zip(shape, rhs.getShape()))
    if (length != other)
      length = kAssumedLength;
  return lhs.clone(shape);
}

/// Imports the subgraphs of a node and returns the types of the node's outputs,
/// as far as they follow from the subgraphs.
PartImporter::Types PartImporter::importGraphs(Graph &graph, const Level &level,
                                               unsigned index) {
  const NodeProto &node = level.graph.node(index);
  const NodeProto *inferred =
      level.inferred ? &level.inferred->node(index) : nullptr;
  std::string name = graph.getQualified(getNodeName(node, index));
  StringRef chosen = getChosen(graph, node);
  std::optional<Types> types;
  for (auto [place, attribute] : llvm::enumerate(node.attribute())) {
    if (!attribute.has_g())
      continue;
    Level &body = levels.emplace_back(
        attribute.g(), inferred ? &inferred->attribute(place).g() : nullptr);
    Types made =
        importGraph(graph, body, node, name + "/" + attribute.name() + "/");
    if (!types || attribute.name() == chosen)
      types = std::move(made);
    else if (chosen.empty())
      for (auto [type, other] : llvm::zip(*types, made))
        type.tensor = mergeTypes(type.tensor, other.tensor);
  }
  if (!types)
    return {};
  Loop loop(node);
  types->erase(types->begin(),
               types->begin() +
                   std::min<size_t>(loop.firstOutput, types->size()));
  for (size_t output = loop.carried; loop.isLoop && output < types->size();
       ++output)
    if (RankedTensorType &type = (*types)[output].tensor)
      type = addAxis(type, getAxis(node, "scan_output_axes",
                                   output - loop.carried, type.getRank() + 1));
  if (!loop.isLoop && node.op_type() != "If")
    return {}; // For other ops, ONNX's inference finds the types.
  return std::move(*types);
}
