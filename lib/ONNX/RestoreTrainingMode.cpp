//===- RestoreTrainingMode.cpp - Batch norm of PyTorch's exporter ---------===//

#include "RestoreTrainingMode.h"
#include "binade/ONNX/TorchExport.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;
using ::onnx::AttributeProto;
using ::onnx::NodeProto;

/// Returns the attribute `name` of `node`, which is added if it is missing.
static AttributeProto &getAttribute(NodeProto &node, StringRef name) {
  for (AttributeProto &attribute : *node.mutable_attribute())
    if (attribute.name() == name)
      return attribute;
  AttributeProto &added = *node.add_attribute();
  added.set_name(name.str());
  return added;
}

static void setFloat(NodeProto &node, StringRef name, double value) {
  AttributeProto &attribute = getAttribute(node, name);
  attribute.set_type(AttributeProto::FLOAT);
  attribute.set_f(static_cast<float>(value));
}

/// Whether `node` is batch norm with running statistics as inputs. PyTorch 2.5
/// calls a function.
static bool isBatchNorm(const NodeProto &node) {
  return node.op_type() == "BatchNormalization" ||
         node.op_type() == "_aten_native_batch_norm_inference_onnx";
}

static bool isTraining(const NodeProto &node) {
  return llvm::any_of(node.attribute(), [](const AttributeProto &attribute) {
    return attribute.name() == "training_mode" && attribute.i() == 1;
  });
}

/// Gives `node` training form if the traced program says so.
static void restore(NodeProto &node) {
  // batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon)
  constexpr size_t kTraining = 5, kMomentum = 6, kEpsilon = 7;
  TorchCall call = getTorchCall(node);
  SmallVector<StringRef> arguments = call.split();
  double momentum, epsilon;
  if (!call.op.contains("batch_norm") || arguments.size() <= kEpsilon ||
      arguments[kTraining] != "True" ||
      arguments[kMomentum].getAsDouble(momentum) ||
      arguments[kEpsilon].getAsDouble(epsilon))
    return;
  if (node.op_type() != "BatchNormalization") {
    node.set_op_type("BatchNormalization");
    node.clear_domain();
    node.clear_attribute();
    node.mutable_output()->DeleteSubrange(1, node.output_size() - 1);
  }
  setFloat(node, "epsilon", epsilon);
  setFloat(node, "momentum", 1.0 - momentum);
  AttributeProto &training = getAttribute(node, "training_mode");
  training.set_type(AttributeProto::INT);
  training.set_i(1);
}

void mlir::binade::restoreTrainingMode(Model &model) {
  std::optional<InFlightDiagnostic> warning;
  auto &nodes = *model.getProto().mutable_graph()->mutable_node();
  for (auto [index, node] : llvm::enumerate(nodes)) {
    if (!isBatchNorm(node))
      continue;
    restore(node);
    if (isTraining(node) || warning)
      continue;
    warning.emplace(mlir::emitWarning(model.getLoc(node, index)));
    *warning
        << "batch norm is in inference form: its running statistics do not "
           "change";
    warning->attachNote()
        << "for training, export after model.train(): with dynamo=True and "
           "optimize=False, or with dynamo=False and "
           "training=torch.onnx.TrainingMode.TRAINING";
  }
}
