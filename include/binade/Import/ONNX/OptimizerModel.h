//===- OptimizerModel.h - Optimizers of ONNX Runtime files ------*- C++ -*-===//
#ifndef BINADE_IMPORT_ONNX_OPTIMIZERMODEL_H
#define BINADE_IMPORT_ONNX_OPTIMIZERMODEL_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::binade {

/// A rule of the library, and values of its hyper-parameters.
struct ImportedOptimizer {
  std::string rule;
  llvm::StringMap<double> settings;
};

/// Reads an `optimizer_model.onnx` of ONNX Runtime's training: one node, an
/// `AdamWOptimizer` or `SGDOptimizerV2` of com.microsoft over sequences of all
/// tensors. Its learning rate is an input, and stays the rule's default.
/// Anything else is an error.
FailureOr<ImportedOptimizer> readOptimizerModel(StringRef path,
                                                MLIRContext *context);

} // namespace mlir::binade

#endif // BINADE_IMPORT_ONNX_OPTIMIZERMODEL_H
