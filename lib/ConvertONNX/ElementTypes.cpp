//===- ElementTypes.cpp - Element types of a graph's values ---------------===//

#include "ElementTypes.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;
using namespace mlir::binade::convert;
using ::onnx::AttributeProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

unsigned mlir::binade::convert::getElementBits(int32_t type) {
  switch (type) {
  case TensorProto::COMPLEX128:
    return 128;
  case TensorProto::DOUBLE:
  case TensorProto::INT64:
  case TensorProto::UINT64:
  case TensorProto::COMPLEX64:
    return 64;
  case TensorProto::FLOAT:
  case TensorProto::INT32:
  case TensorProto::UINT32:
    return 32;
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
  case TensorProto::INT16:
  case TensorProto::UINT16:
    return 16;
  case TensorProto::INT4:
  case TensorProto::UINT4:
  case TensorProto::FLOAT4E2M1:
    return 4;
  case TensorProto::INT2:
  case TensorProto::UINT2:
    return 2;
  case TensorProto::STRING:
  case TensorProto::UNDEFINED:
    return 0;
  default: // 8-bit integers and floats, and bool.
    return 8;
  }
}

/// Adds the declared types of `graph` that are not known yet.
void ElementTypes::add(const ::onnx::GraphProto &graph) {
  for (const auto *values :
       {&graph.input(), &graph.output(), &graph.value_info()})
    for (const auto &value : *values)
      if (value.type().has_tensor_type())
        types.try_emplace(value.name(), value.type().tensor_type().elem_type());
}

ElementTypes::ElementTypes(const ::onnx::GraphProto &graph,
                           const OperatorSets &sets,
                           const ::onnx::GraphProto *inferred,
                           const ElementTypes *outer)
    : outer(outer) {
  for (const TensorProto &tensor : graph.initializer())
    types[tensor.name()] = tensor.data_type();
  add(graph);
  if (inferred)
    add(*inferred);
  for (const NodeProto &node : graph.node())
    infer(node, sets);
}

/// Returns the type that an attribute of the node specifies, if any; the type
/// of the output may depend on it.
static int32_t getNamedType(const NodeProto &node) {
  for (const AttributeProto &attribute : node.attribute()) {
    StringRef name = attribute.name();
    if (name == "to" || name == "dtype" || name == "output_dtype" ||
        name == "output_datatype" || name == "stash_type")
      return attribute.i();
    if (attribute.has_t())
      return attribute.t().data_type();
    if (name == "value_float" || name == "value_floats")
      return TensorProto::FLOAT;
    if (name == "value_int" || name == "value_ints")
      return TensorProto::INT64;
    if (name == "value_string" || name == "value_strings")
      return TensorProto::STRING;
  }
  return TensorProto::UNDEFINED;
}

void ElementTypes::infer(const NodeProto &node, const OperatorSets &sets) {
  const OpSchema *schema = findSchema(node.domain(), node.op_type(), sets);
  if (!schema)
    return;
  std::map<char, int32_t> bound;
  for (auto [index, name] : llvm::enumerate(node.input()))
    if (std::optional<char> letter = schema->getInput(index))
      if (int32_t type = get(name))
        bound.insert({*letter, type});
  int32_t named = getNamedType(node);
  for (auto [index, name] : llvm::enumerate(node.output())) {
    std::optional<char> letter = schema->getOutput(index);
    if (name.empty() || !letter || types.contains(name))
      continue;
    auto found = bound.find(*letter);
    int32_t type =
        found != bound.end() ? found->second : schema->getOnlyType(*letter);
    // Without such an attribute, assume float.
    if (!type)
      type = named ? named : int32_t(TensorProto::FLOAT);
    if (schema->allows(*letter, type))
      types[name] = type;
  }
}
