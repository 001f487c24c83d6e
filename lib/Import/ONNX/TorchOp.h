//===- TorchOp.h - PyTorch's metadata of a node -----------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_TORCHOP_H
#define BINADE_LIB_IMPORT_ONNX_TORCHOP_H

#include "Node.h"

namespace mlir::binade::importer {

/// Returns the ATen op from which `torch.onnx.export` created `node`, such as
/// `clamp.Tensor`, according to the node's metadata (PyTorch's own, or the key
/// `binade.function`); empty if the metadata do not name one. Several ATen ops
/// with equal values but different gradients map to one ONNX op.
StringRef getTorchOp(const Node &node);

/// Whether `node`, an Identity, stops gradients: its metadata have the key
/// `binade.detached`, or it comes from PyTorch's `detach`.
bool isDetached(const Node &node);

/// Returns the row of an embedding that gets no gradient (`padding_idx` in
/// PyTorch), according to the key `binade.padding_idx` or PyTorch's own
/// metadata of the node; nothing without padding.
FailureOr<std::optional<int64_t>> getPaddingIndex(const Node &node);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_TORCHOP_H
