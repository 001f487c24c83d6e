//===- Producer.cpp - The program that wrote an ONNX file -----------------===//

#include "binade/ONNX/Producer.h"
#include "binade/Container/JoinFirst.h"
#include "binade/ONNX/TorchExport.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::binade;

Producer mlir::binade::getProducer(const ::onnx::ModelProto &model) {
  if (model.producer_name() == "tf2onnx")
    return Producer::TF2ONNX;
  if (model.producer_name() == "jax2onnx")
    return Producer::JAX2ONNX;
  return isTorchScript(model) ? Producer::TorchScript : Producer::Other;
}

SmallVector<StringRef> mlir::binade::getAdvice(Producer producer) {
  switch (producer) {
  case Producer::Other:
    return {};
  case Producer::TorchScript:
    return {"--freeze GLOB leaves out buffers of the module, which the file "
            "does not distinguish; torch.onnx.export(..., dynamo=True) does"};
  case Producer::TF2ONNX:
    return {"tf2onnx writes the inference graph, without dropout, removes "
            "biases that are 0, and stores variables with equal values once",
            "binade.keras.export(model, path) keeps all variables and their "
            "names; --freeze GLOB leaves out tensors that are not trainable, "
            "and --also-train GLOB adds some"};
  case Producer::JAX2ONNX:
    return {"jax2onnx stores parameters without their names, some of them in "
            "other shapes",
            "binade.jax.export(function, parameters, inputs, path) keeps all "
            "parameters and their names; --freeze GLOB leaves out tensors that "
            "are not parameters, and --also-train GLOB adds some"};
  }
  llvm_unreachable("unknown producer");
}

std::vector<std::string>
mlir::binade::findFoldedNorms(const ::onnx::ModelProto &model) {
  llvm::SetVector<StringRef> layers;
  if (getProducer(model) == Producer::TF2ONNX)
    for (const auto &node : model.graph().node()) {
      auto [layer, rest] = StringRef(node.name()).split("/batchnorm/");
      if (!rest.empty())
        layers.insert(layer);
    }
  return {layers.begin(), layers.end()};
}

static LogicalResult checkFolded(const Model &model,
                                 ArrayRef<std::string> allowed) {
  std::vector<std::string> folded;
  for (const std::string &layer : findFoldedNorms(model.getProto()))
    if (llvm::none_of(allowed, [&](const std::string &text) {
          llvm::Expected<llvm::GlobPattern> glob =
              llvm::GlobPattern::create(text);
          if (glob)
            return glob->match(layer);
          llvm::consumeError(glob.takeError());
          return false;
        }))
      folded.push_back(quote(layer));
  if (folded.empty())
    return success();
  constexpr size_t kShown = 4;
  InFlightDiagnostic error = model.emitError();
  error << "batch norm is folded into constants, so that its scale and offset "
           "cannot be trained: "
        << ::binade::joinFirst(folded, kShown);
  error.attachNote() << "binade.keras.export(model, path) keeps them";
  error.attachNote() << "--freeze LAYER accepts that the batch norm of a layer "
                        "stays as it is";
  return error;
}

static void warnOfInference(const Model &model) {
  for (auto [index, node] : llvm::enumerate(model.getGraph().node())) {
    if (node.op_type() != "BatchNormalization" ||
        llvm::any_of(node.attribute(), [](const auto &attribute) {
          return attribute.name() == "training_mode" && attribute.i() == 1;
        }))
      continue;
    InFlightDiagnostic warning = mlir::emitWarning(model.getLoc(node, index));
    warning << "batch norm is in inference form: its running statistics do not "
               "change";
    warning.attachNote()
        << "the exporter writes the inference graph; for training, use "
        << (getProducer(model.getProto()) == Producer::TF2ONNX
                ? "binade.keras.export(model, path)"
                : "a norm without running statistics, such as layer norm or "
                  "group norm");
    return;
  }
}

LogicalResult mlir::binade::checkBatchNorm(const Model &model,
                                           ArrayRef<std::string> allowed) {
  Producer producer = getProducer(model.getProto());
  if (producer != Producer::TF2ONNX && producer != Producer::JAX2ONNX)
    return success();
  warnOfInference(model);
  return checkFolded(model, allowed);
}
