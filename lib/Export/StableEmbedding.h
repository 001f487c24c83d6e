//===- StableEmbedding.h - Norms that training added ------------*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_STABLEEMBEDDING_H
#define BINADE_LIB_EXPORT_STABLEEMBEDDING_H

#include "binade/ONNX/Model.h"

namespace mlir::binade {

/// Adds the layer norms of stable embeddings (`binade-stabilize-embeddings`) to
/// `model`: behind each Gather from a tensor for whose norm there are trained
/// values, which `hasValue` says by name. `owners` are the names that tensors
/// were trained under, where those are not their own.
LogicalResult
addStableEmbeddings(Model &model, const llvm::StringMap<std::string> &owners,
                    llvm::function_ref<bool(StringRef name)> hasValue);

} // namespace mlir::binade

#endif // BINADE_LIB_EXPORT_STABLEEMBEDDING_H
