//===- Body.cpp - Unrolling of subgraphs ----------------------------------===//

#include "Body.h"
#include "ImportNode.h"
#include "binade/ONNX/Order.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

Body::Body(Node &node, StringRef name) : node(node), name(name) {}

LogicalResult Body::readGraph() {
  const ::onnx::AttributeProto *attribute = node.findAttribute(name);
  if (!attribute || !attribute->has_g())
    return node.emitError() << "expected a graph as " << quote(name);
  graph = &attribute->g();
  if (!graph->sparse_initializer().empty())
    return node.emitUnsupported() << quote(name)
                                  << " has sparse initializers, which are not "
                                     "supported";
  if (failed(take(graph->node_size())))
    return failure();
  auto isOuter = [&](StringRef outer) { return node.graph.find(outer); };
  // In ONNX, a subgraph must not redefine a name of an enclosing graph.
  std::string hidden;
  auto define = [&](StringRef kind, const std::string &own) {
    if (hidden.empty() && isOuter(own))
      hidden = (kind + " " + quote(own)).str();
  };
  for (const auto &input : graph->input())
    define("input", input.name());
  for (const auto &tensor : graph->initializer())
    define("initializer", tensor.name());
  for (const auto &inner : graph->node())
    for (const std::string &output : inner.output())
      define("value", output);
  if (!hidden.empty())
    return node.emitUnsupported()
           << hidden << " of " << quote(name)
           << " has the name of a value of an enclosing graph";
  const Model &model = node.graph.getModel();
  FailureOr<SmallVector<unsigned>> sorted = sortNodes(model, *graph, isOuter);
  if (failed(sorted))
    return failure();
  order = *sorted;
  used = collectUsed(*graph, order);
  return checkOps(model, *graph, order);
}

LogicalResult Body::take(uint64_t nodes) {
  // Count one more, so that the number of runs of a body without nodes is
  // limited as well.
  if (node.graph.takeNodes(nodes + 1))
    return success();
  return node.emitUnsupported()
         << "runs so many iterations that its nodes, unrolled, are more than "
         << kMaxInnerNodes;
}

unsigned Body::getNumInputs() const { return graph->input_size(); }
unsigned Body::getNumOutputs() const { return graph->output_size(); }

FailureOr<SmallVector<NamedValue>> Body::unroll(ArrayRef<NamedValue> inputs,
                                                const Twine &label) {
  Graph &outer = node.graph;
  if (failed(take(order.size() + graph->initializer_size())))
    return failure();
  if (inputs.size() != getNumInputs())
    return node.emitError() << "gives " << quote(name) << " " << inputs.size()
                            << " inputs, it has " << getNumInputs();
  Graph::Scope scope(outer, node.getName() + "/" + label + "/", used);
  for (const auto &tensor : graph->initializer()) {
    FailureOr<TypedAttr> value = outer.getTensors().readConstant(
        node.getErrorLoc(), tensor, std::nullopt);
    if (failed(value))
      return failure();
    outer.define(tensor.name(), ConstantOp::create(node.b, *value));
  }
  for (auto [input, value] : llvm::zip_equal(graph->input(), inputs))
    outer.define(input.name(), value);
  for (unsigned index : order)
    if (failed(importNode(outer, graph->node(index), index)))
      return failure();
  SmallVector<NamedValue> outputs;
  for (const auto &output : graph->output())
    outputs.push_back(*outer.find(output.name()));
  return outputs;
}

FailureOr<RankedTensorType> Body::getDeclaredType(unsigned index) {
  const auto &output = graph->output(index);
  const auto &declared = output.type().tensor_type();
  Type element = getElementType(node.graph.getContext(), declared.elem_type());
  SmallVector<int64_t> shape;
  bool isKnown = element && declared.has_shape();
  for (const auto &dimension : declared.shape().dim()) {
    isKnown &= dimension.has_dim_value();
    shape.push_back(dimension.dim_value());
  }
  if (!isKnown)
    return node.emitUnsupported() << "runs " << quote(name)
                                  << " not once, and the shape of its output "
                                  << quote(output.name()) << " is not declared";
  return getTensorType(node.getErrorLoc(), shape, element);
}
