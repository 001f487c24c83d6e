//===- CheckNode.cpp - Checks that a node is valid ONNX -------------------===//

#include "CheckNode.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

static std::string printType(int type) {
  return AttributeProto::AttributeType_Name(
      static_cast<AttributeProto::AttributeType>(type));
}

//===----------------------------------------------------------------------===//
// Inputs, outputs and attributes
//===----------------------------------------------------------------------===//

/// Returns the number of names up to the last one that is not empty.
template <typename Names> static unsigned countGiven(const Names &names) {
  unsigned count = names.size();
  while (count > 0 && names.Get(count - 1).empty())
    --count;
  return count;
}

static LogicalResult checkCounts(Location loc, const NodeProto &node,
                                 const OpSchema &schema) {
  unsigned inputs = countGiven(node.input());
  bool isMissing = inputs < schema.minInputs;
  for (unsigned i = 0; i < inputs; ++i)
    isMissing |= schema.needsInput(i) && node.input(i).empty();
  if (isMissing || inputs > schema.maxInputs)
    return mlir::emitError(loc)
           << "expected " << schema.minInputs
           << (schema.maxInputs == schema.minInputs ? "" : " or more")
           << " inputs, got " << describeInputs(node);
  unsigned outputs = countGiven(node.output());
  if (outputs <= schema.maxOutputs)
    return success();
  return mlir::emitError(loc) << "has no output " << schema.maxOutputs;
}

static LogicalResult checkAttributes(Location loc, const NodeProto &node,
                                     const OpSchema &schema, int64_t opset) {
  auto known = schema.getAttributes();
  for (auto &wanted : known)
    if (wanted.isRequired &&
        llvm::none_of(node.attribute(), [&](const AttributeProto &attribute) {
          return attribute.name() == wanted.name;
        }))
      return mlir::emitError(loc)
             << "attribute " << quote(wanted.name) << " is missing";
  for (const AttributeProto &attribute : node.attribute()) {
    auto found = llvm::find_if(
        known, [&](auto &other) { return other.name == attribute.name(); });
    if (found == known.end())
      return mlir::emitError(loc) << "attribute " << quote(attribute.name())
                                  << " is not known in opset " << opset;
    if (attribute.type() != found->type)
      return mlir::emitError(loc)
             << "attribute " << quote(attribute.name()) << " is of type "
             << printType(attribute.type()) << ", expected "
             << printType(found->type);
  }
  return success();
}

LogicalResult mlir::binade::checkSchema(Location loc, const NodeProto &node,
                                        const OpSchema &schema, int64_t opset) {
  return success(succeeded(checkCounts(loc, node, schema)) &&
                 succeeded(checkAttributes(loc, node, schema, opset)));
}

//===----------------------------------------------------------------------===//
// One attribute
//===----------------------------------------------------------------------===//

/// Returns the types of the values that `attribute` has.
static SmallVector<int> findValues(const AttributeProto &attribute) {
  SmallVector<int> found;
  auto add = [&](bool isThere, int type) {
    if (isThere)
      found.push_back(type);
  };
  add(attribute.has_f(), AttributeProto::FLOAT);
  add(attribute.has_i(), AttributeProto::INT);
  add(attribute.has_s(), AttributeProto::STRING);
  add(attribute.has_t(), AttributeProto::TENSOR);
  add(attribute.has_g(), AttributeProto::GRAPH);
  add(attribute.has_sparse_tensor(), AttributeProto::SPARSE_TENSOR);
  add(attribute.has_tp(), AttributeProto::TYPE_PROTO);
  add(!attribute.floats().empty(), AttributeProto::FLOATS);
  add(!attribute.ints().empty(), AttributeProto::INTS);
  add(!attribute.strings().empty(), AttributeProto::STRINGS);
  add(!attribute.tensors().empty(), AttributeProto::TENSORS);
  add(!attribute.graphs().empty(), AttributeProto::GRAPHS);
  add(!attribute.sparse_tensors().empty(), AttributeProto::SPARSE_TENSORS);
  add(!attribute.type_protos().empty(), AttributeProto::TYPE_PROTOS);
  return found;
}

static LogicalResult checkReference(Location loc,
                                    const AttributeProto &attribute,
                                    const ::onnx::FunctionProto *function) {
  const std::string &name = attribute.ref_attr_name();
  if (!function)
    return mlir::emitError(loc) << "attribute " << quote(attribute.name())
                                << " refers to an attribute of a function, but "
                                   "the node is not in one";
  auto isNamed = [&](const AttributeProto &other) {
    return other.name() == name;
  };
  if (llvm::is_contained(function->attribute(), name) ||
      llvm::any_of(function->attribute_proto(), isNamed))
    return success();
  return mlir::emitError(loc)
         << "attribute " << quote(attribute.name()) << " refers to attribute "
         << quote(name) << ", which function " << quote(function->name())
         << " does not declare";
}

LogicalResult
mlir::binade::checkAttribute(Location loc, const AttributeProto &attribute,
                             const ::onnx::FunctionProto *function) {
  if (attribute.name().empty())
    return mlir::emitError(loc) << "has an attribute without a name";
  if (attribute.type() == AttributeProto::UNDEFINED)
    return mlir::emitError(loc)
           << "attribute " << quote(attribute.name()) << " has no type";
  if (!attribute.ref_attr_name().empty())
    return checkReference(loc, attribute, function);
  for (int type : findValues(attribute))
    if (type != attribute.type())
      return mlir::emitError(loc)
             << "attribute " << quote(attribute.name()) << " is of type "
             << printType(attribute.type()) << ", but has a value of type "
             << printType(type);
  return success();
}

//===----------------------------------------------------------------------===//
// Subgraphs
//===----------------------------------------------------------------------===//

static LogicalResult checkPorts(Location loc, StringRef name,
                                const GraphProto &graph, unsigned inputs,
                                unsigned outputs, bool hasMore) {
  unsigned found = graph.output_size();
  if (static_cast<unsigned>(graph.input_size()) != inputs)
    return mlir::emitError(loc)
           << "passes " << inputs << " inputs to " << quote(name)
           << ", which has " << graph.input_size();
  if (found == outputs || (hasMore && found > outputs))
    return success();
  return mlir::emitError(loc)
         << "expected " << outputs << (hasMore ? " or more" : "")
         << " outputs of " << quote(name) << ", got " << found;
}

LogicalResult mlir::binade::checkBranches(Location loc, const NodeProto &node,
                                          int64_t opset) {
  unsigned inputs = node.input_size(), outputs = node.output_size();
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.type() != AttributeProto::GRAPH)
      continue;
    const GraphProto &graph = attribute.g();
    LogicalResult checked = success();
    if (node.op_type() == "If")
      checked = checkPorts(loc, attribute.name(), graph, 0, outputs, false);
    else if (node.op_type() == "Loop")
      // Inputs are the iteration number, the condition and the carried values;
      // outputs begin with the condition.
      checked = checkPorts(loc, attribute.name(), graph, std::max(inputs, 2u),
                           std::max(outputs, std::max(inputs, 2u) - 2) + 1,
                           /*hasMore=*/true);
    else if (node.op_type() == "Scan" && opset >= 9)
      checked = checkPorts(loc, attribute.name(), graph, inputs, outputs,
                           /*hasMore=*/true);
    if (failed(checked))
      return failure();
  }
  return success();
}
