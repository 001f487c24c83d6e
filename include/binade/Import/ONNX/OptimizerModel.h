//===- OptimizerModel.h - Import of ONNX Runtime's optimizers ---*- C++ -*-===//

#ifndef BINADE_IMPORT_ONNX_OPTIMIZERMODEL_H
#define BINADE_IMPORT_ONNX_OPTIMIZERMODEL_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::binade {

/// An optimizer rule of Binade's library and the values of its
/// hyper-parameters.
struct ImportedOptimizer {
  std::string rule;
  llvm::StringMap<double> settings;
};

/// Reads the `optimizer_model.onnx` of ONNX Runtime's training: a graph of one
/// node, `AdamWOptimizer` or `SGDOptimizerV2` of com.microsoft, whose inputs
/// are sequences of all tensors. The learning rate is an input of the graph, so
/// the rule's default remains. Any other graph is an error.
FailureOr<ImportedOptimizer> readOptimizerModel(StringRef path,
                                                MLIRContext *context);

} // namespace mlir::binade

#endif // BINADE_IMPORT_ONNX_OPTIMIZERMODEL_H
