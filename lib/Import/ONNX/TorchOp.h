//===- TorchOp.h - What PyTorch's exporter says of a node -------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_TORCHOP_H
#define BINADE_LIB_IMPORT_ONNX_TORCHOP_H

#include "Node.h"

namespace mlir::binade::importer {

/// The ATen op that `torch.onnx.export` wrote `node` for, as `clamp.Tensor`, by
/// the node's metadata (PyTorch's own, or the key `binade.function`); empty
/// where there is none. Several of them are one op of ONNX, with the same
/// values and other gradients.
StringRef getTorchOp(const Node &node);

/// Whether `node`, an Identity, passes no gradient back: by the key
/// `binade.detached` of its metadata, or as PyTorch's `detach`.
bool isDetached(const Node &node);

/// The row that a lookup gives no gradient, `padding_idx` of PyTorch: by the
/// key `binade.padding_idx` or by PyTorch's own of the node's metadata.
FailureOr<std::optional<int64_t>> getPaddingIndex(const Node &node);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_TORCHOP_H
