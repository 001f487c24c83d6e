//===- UnknownFields.cpp - Fields that this version of ONNX lacks ---------===//
// Protobuf's lite runtime has no reflection, so the fields of each message are
// visited by name.
//===----------------------------------------------------------------------===//

#include "UnknownFields.h"
#include "onnx-ml.pb.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

using namespace mlir;
using namespace mlir::binade;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

namespace {
/// Visits messages until one has an unknown field. Each `visit` returns whether
/// it has found one.
class UnknownFieldFinder {
public:
  bool visit(const ::onnx::ModelProto &model) {
    return look(model) || visit(model.graph()) || each(model.functions()) ||
           each(model.opset_import()) || each(model.metadata_props());
  }

  std::string found;

private:
  bool visit(const ::onnx::GraphProto &graph) {
    return look(graph) || each(graph.node()) || each(graph.initializer()) ||
           each(graph.input()) || each(graph.output()) ||
           each(graph.value_info());
  }

  bool visit(const ::onnx::FunctionProto &function) {
    return look(function) || each(function.node()) ||
           each(function.attribute_proto()) || each(function.opset_import());
  }

  bool visit(const ::onnx::NodeProto &node) {
    return look(node) || each(node.attribute()) || each(node.metadata_props());
  }

  bool visit(const ::onnx::AttributeProto &attribute) {
    return look(attribute) || (attribute.has_t() && visit(attribute.t())) ||
           (attribute.has_g() && visit(attribute.g())) ||
           each(attribute.tensors()) || each(attribute.graphs());
  }

  bool visit(const ::onnx::TensorProto &tensor) {
    return look(tensor) || each(tensor.external_data());
  }

  bool visit(const ::onnx::ValueInfoProto &value) {
    if (look(value) || !value.has_type())
      return !found.empty();
    const ::onnx::TypeProto &type = value.type();
    return look(type) || (type.has_tensor_type() && look(type.tensor_type()));
  }

  bool visit(const ::onnx::StringStringEntryProto &entry) {
    return look(entry);
  }
  bool visit(const ::onnx::OperatorSetIdProto &set) { return look(set); }

  template <typename Messages> bool each(const Messages &messages) {
    return llvm::any_of(messages,
                        [&](const auto &message) { return visit(message); });
  }

  template <typename Message> bool look(const Message &message) {
    const std::string &fields = message.unknown_fields();
    if (fields.empty())
      return false;
    CodedInputStream input(reinterpret_cast<const uint8_t *>(fields.data()),
                           static_cast<int>(fields.size()));
    const std::string name = message.GetTypeName();
    found = "field " +
            std::to_string(WireFormatLite::GetTagFieldNumber(input.ReadTag())) +
            " of " + name.substr(name.rfind('.') + 1);
    return true;
  }
};
} // namespace

std::string mlir::binade::findUnknownField(const ::onnx::ModelProto &model) {
  UnknownFieldFinder walk;
  walk.visit(model);
  return walk.found;
}
