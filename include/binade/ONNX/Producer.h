//===- Producer.h - The program that wrote an ONNX file ---------*- C++ -*-===//
// Some exporters do not record which tensors are parameters of the model.
// Import then decides by names and by the ops that read a tensor, and warns of
// what it assumed.
//===----------------------------------------------------------------------===//

#ifndef BINADE_ONNX_PRODUCER_H
#define BINADE_ONNX_PRODUCER_H

#include "binade/ONNX/Model.h"

namespace mlir::binade {

/// An exporter whose files do not say which tensors are parameters.
enum class Producer {
  Other,       ///< The file says it, or the exporter is unknown.
  TorchScript, ///< torch.onnx.export(..., dynamo=False)
  TF2ONNX,     ///< tf2onnx, which Keras calls as well
  JAX2ONNX,
};

Producer getProducer(const ::onnx::ModelProto &model);

/// Returns what else a warning about assumed parameters says: what the exporter
/// does to parameters, and which export keeps them. Empty for `Other`.
SmallVector<StringRef> getAdvice(Producer producer);

/// Returns the layers whose batch norm tf2onnx folded into constants. Its nodes
/// are named "net/norm/batchnorm/mul_1"; the file has neither scale nor offset.
std::vector<std::string> findFoldedNorms(const ::onnx::ModelProto &model);

/// Checks batch norm in files of tf2onnx and jax2onnx: fails if it is folded
/// into constants, except in layers that match a glob in `allowed`, and warns
/// if it is in inference form.
LogicalResult checkBatchNorm(const Model &model, ArrayRef<std::string> allowed);

} // namespace mlir::binade

#endif // BINADE_ONNX_PRODUCER_H
