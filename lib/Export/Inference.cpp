//===- Inference.cpp - Training graphs as inference graphs ----------------===//

#include "Inference.h"
#include "binade/Container/Json.h"
#include "binade/Container/Suggest.h"
#include "binade/ONNX/Order.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::binade;
using nlohmann::ordered_json;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

/// Keeps the elements of `field` that satisfy `predicate`, in order.
template <typename Field, typename Predicate>
static void keepIf(Field &field, Predicate predicate) {
  int kept = 0;
  for (int i = 0; i < field.size(); ++i)
    if (predicate(field.Get(i)))
      field.SwapElements(i, kept++);
  field.DeleteSubrange(kept, field.size() - kept);
}

template <typename Field> static void truncate(Field &field, int size) {
  if (field.size() > size)
    field.DeleteSubrange(size, field.size() - size);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Makes a BatchNormalization use its running statistics, and drops the outputs
/// with updated ones. `now` maps these outputs to the inputs that replace them.
static void fixStatistics(NodeProto &node, llvm::StringMap<std::string> &now) {
  keepIf(*node.mutable_attribute(), [](const auto &attribute) {
    return attribute.name() != "training_mode";
  });
  for (int i = 1; i < std::min(node.output_size(), 3); ++i)
    now[node.output(i)] = node.input(i + 2);
  truncate(*node.mutable_output(), 1);
}

void mlir::binade::makeInference(GraphProto &graph) {
  llvm::StringMap<std::string> now;
  for (NodeProto &node : *graph.mutable_node()) {
    if (!node.domain().empty() && node.domain() != "ai.onnx")
      continue;
    if (node.op_type() == "Dropout") {
      // The third input, training_mode, is false where it is absent.
      truncate(*node.mutable_input(), 2);
      truncate(*node.mutable_output(), 1);
    } else if (node.op_type() == "BatchNormalization" &&
               node.input_size() == 5) {
      fixStatistics(node, now);
    }
  }
  for (NodeProto &node : *graph.mutable_node())
    for (std::string &input : *node.mutable_input())
      if (auto found = now.find(input); found != now.end())
        input = found->second;
  keepIf(*graph.mutable_output(), [&](const ValueInfoProto &output) {
    return !now.contains(output.name());
  });
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

/// Whether a value may be the loss: a float with one element, as far as its
/// type is declared.
static bool isNumber(const ValueInfoProto &value) {
  const auto &type = value.type().tensor_type();
  if (!value.type().has_tensor_type())
    return true;
  bool isFloat =
      llvm::is_contained({TensorProto::FLOAT, TensorProto::DOUBLE,
                          TensorProto::FLOAT16, TensorProto::BFLOAT16},
                         type.elem_type());
  return isFloat && llvm::all_of(type.shape().dim(), [](const auto &dimension) {
           return dimension.has_dim_value() && dimension.dim_value() == 1;
         });
}

static std::string list(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + quote(name);
  return text;
}

LogicalResult mlir::binade::selectOutputs(Model &model,
                                          const ExportOptions &options) {
  GraphProto &graph = *model.getProto().mutable_graph();
  std::vector<std::string> names;
  for (const ValueInfoProto &output : graph.output())
    names.push_back(output.name());
  auto reject = [&](StringRef flag,
                    const std::string &name) -> InFlightDiagnostic {
    InFlightDiagnostic error = model.emitError();
    error << flag << ": the model has no output " << quote(name)
          << ::binade::suggest(name, names);
    error.attachNote() << "its outputs are " << list(names);
    return error;
  };
  if (!options.only.empty()) {
    google::protobuf::RepeatedPtrField<ValueInfoProto> chosen;
    for (const std::string &name : options.only) {
      auto hasName = [&](const ValueInfoProto &value) {
        return value.name() == name;
      };
      if (llvm::any_of(chosen, hasName))
        return model.emitError()
               << "--only: " << quote(name) << " is named twice";
      if (auto output = llvm::find_if(graph.output(), hasName);
          output != graph.output().end())
        *chosen.Add() = *output;
      else if (auto value = llvm::find_if(graph.value_info(), hasName);
               value != graph.value_info().end())
        *chosen.Add() = *value;
      else {
        InFlightDiagnostic error = reject("--only", name);
        error.attachNote() << "other values need a declared type; "
                              "onnx.shape_inference.infer_shapes adds it";
        return error;
      }
    }
    graph.mutable_output()->Swap(&chosen);
    return success();
  }
  std::string loss = options.lossOutput.empty() ? "loss" : options.lossOutput;
  bool isOutput = llvm::is_contained(names, loss);
  if (!options.lossOutput.empty() && !isOutput)
    return reject("--loss-output", loss);
  if (!options.keepLoss && names.size() > 1)
    keepIf(*graph.mutable_output(), [&](const ValueInfoProto &output) {
      return output.name() != loss || !isNumber(output);
    });
  return success();
}

//===----------------------------------------------------------------------===//
// Removal of unused parts
//===----------------------------------------------------------------------===//

static llvm::StringSet<> collectRead(const GraphProto &graph) {
  llvm::StringSet<> names;
  for (const NodeProto &node : graph.node())
    forEachRead(node, [&](const std::string &name) { names.insert(name); });
  for (const ValueInfoProto &output : graph.output())
    names.insert(output.name());
  return names;
}

void mlir::binade::removeUnused(GraphProto &graph) {
  llvm::StringMap<const NodeProto *> producers;
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      producers[name] = &node;
  llvm::StringSet<> given;
  for (const ValueInfoProto &input : graph.input())
    given.insert(input.name());
  llvm::StringSet<> wasRead = collectRead(graph);
  llvm::SmallPtrSet<const NodeProto *, 32> live;
  SmallVector<const NodeProto *> worklist;
  auto visit = [&](StringRef name) {
    const NodeProto *producer = name.empty() ? nullptr : producers.lookup(name);
    if (producer && live.insert(producer).second)
      worklist.push_back(producer);
  };
  for (const ValueInfoProto &output : graph.output())
    visit(output.name());
  while (!worklist.empty())
    forEachRead(*worklist.pop_back_val(), visit);
  keepIf(*graph.mutable_node(),
         [&](const NodeProto &node) { return live.contains(&node); });

  llvm::StringSet<> isRead = collectRead(graph);
  keepIf(*graph.mutable_initializer(), [&](const TensorProto &tensor) {
    return isRead.contains(tensor.name());
  });
  keepIf(*graph.mutable_input(), [&](const ValueInfoProto &input) {
    return isRead.contains(input.name()) || !wasRead.contains(input.name());
  });
  llvm::StringSet<> computed;
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      computed.insert(name);
  keepIf(*graph.mutable_value_info(), [&](const ValueInfoProto &value) {
    return computed.contains(value.name()) || given.contains(value.name());
  });
}

void mlir::binade::updateMetadata(::onnx::ModelProto &model) {
  llvm::StringSet<> tensors, names;
  for (const TensorProto &tensor : model.graph().initializer())
    tensors.insert(tensor.name());
  names = tensors;
  for (const ValueInfoProto &input : model.graph().input())
    names.insert(input.name());
  auto &properties = *model.mutable_metadata_props();
  for (auto &property : properties) {
    if (property.key() == "binade.version" ||
        !StringRef(property.key()).starts_with("binade."))
      continue;
    // The import has validated the value: it is JSON of the right schema.
    ordered_json value = ordered_json::parse(property.value());
    ordered_json kept =
        value.is_array() ? ordered_json::array() : ordered_json::object();
    if (value.is_array()) {
      for (const auto &name : value)
        if (names.contains(name.get<std::string>()))
          kept.push_back(name);
    } else {
      bool isRules = property.key() == "binade.init";
      for (const auto &[name, entry] : value.items())
        if (names.contains(name) && !(isRules && tensors.contains(name)))
          kept[name] = entry;
    }
    if (kept.size() != value.size())
      property.set_value(kept.dump());
  }
  keepIf(properties, [](const auto &property) {
    return property.key() != "binade.init" || property.value() != "{}";
  });
}
