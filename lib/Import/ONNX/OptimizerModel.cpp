//===- OptimizerModel.cpp - Import of ONNX Runtime's optimizers -----------===//

#include "binade/Import/ONNX/OptimizerModel.h"
#include "binade/ONNX/Model.h"
#include "onnx-ml.pb.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns AdamW as defined by PyTorch or, in mode 1, by Hugging Face's
/// transformers.
static FailureOr<ImportedOptimizer>
readAdamW(const llvm::StringMap<double> &given, Location loc) {
  auto get = [&](StringRef name, float byDefault) -> double {
    auto found = given.find(name);
    return found == given.end() ? byDefault : found->second;
  };
  if (get("correct_bias", 1.0f) != 1.0)
    return mlir::emitError(loc)
           << "correct_bias 0 is not supported: the AdamW rules of 'binade "
              "list optimizers' correct the bias";
  double mode = get("adam_mode", 0.0f);
  if (mode != 0.0 && mode != 1.0)
    return mlir::emitError(loc) << "expected adam_mode 0 or 1, got " << mode;
  return ImportedOptimizer{mode == 1.0 ? "adamw_hf" : "adamw",
                           {{"beta1", get("alpha", 0.9f)},
                            {"beta2", get("beta", 0.999f)},
                            {"eps", get("epsilon", 1e-8f)},
                            {"weight_decay", get("weight_decay", 1e-2f)}}};
}

FailureOr<ImportedOptimizer>
mlir::binade::readOptimizerModel(StringRef path, MLIRContext *context) {
  Model model(context, path);
  if (failed(model.read()))
    return failure();
  const ::onnx::GraphProto &graph = model.getGraph();
  auto isOptimizer = [](const ::onnx::NodeProto &node) {
    return node.domain() == "com.microsoft" &&
           (node.op_type() == "AdamWOptimizer" ||
            node.op_type() == "SGDOptimizerV2");
  };
  if (graph.node_size() != 1 || !isOptimizer(graph.node(0))) {
    InFlightDiagnostic error = model.emitError();
    error << "is not an optimizer model: expected one node, AdamWOptimizer or "
             "SGDOptimizerV2 of com.microsoft, got ";
    if (graph.node_size() == 1)
      error << ::binade::printable(graph.node(0).op_type(), 80);
    else
      error << graph.node_size() << " nodes";
    if (llvm::any_of(graph.node(), isOptimizer))
      error.attachNote()
          << "specify the optimizer by --optimizer, --set and --clip instead";
    return error;
  }
  const ::onnx::NodeProto &node = graph.node(0);
  Location loc = model.getLoc(node, 0);
  llvm::StringMap<double> given;
  bool isAdamW = node.op_type() == "AdamWOptimizer";
  for (const ::onnx::AttributeProto &attribute : node.attribute()) {
    constexpr StringLiteral kNames[] = {"adam_mode", "alpha",
                                        "beta",      "correct_bias",
                                        "epsilon",   "weight_decay"};
    bool isInteger = attribute.type() == ::onnx::AttributeProto::INT;
    if (!isAdamW || !llvm::is_contained(kNames, attribute.name()) ||
        (!isInteger && attribute.type() != ::onnx::AttributeProto::FLOAT))
      return mlir::emitError(loc)
             << "attribute " << quote(attribute.name()) << " is not supported";
    given[attribute.name()] =
        isInteger ? static_cast<double>(attribute.i()) : attribute.f();
  }
  if (!isAdamW)
    return ImportedOptimizer{"sgd", {{"momentum", 0.0}}};
  return readAdamW(given, loc);
}
