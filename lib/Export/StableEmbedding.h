//===- StableEmbedding.h - Layer norms of stable embeddings -----*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_STABLEEMBEDDING_H
#define BINADE_LIB_EXPORT_STABLEEMBEDDING_H

#include "binade/ONNX/Model.h"

namespace mlir::binade {

/// Adds the layer norms of stable embeddings (`binade-stabilize-embeddings`) to
/// `model`: after each Gather from a tensor, if `hasValue` finds trained values
/// of its norm. `owners` maps tied tensors to the names that they were trained
/// under.
LogicalResult
addStableEmbeddings(Model &model, const llvm::StringMap<std::string> &owners,
                    llvm::function_ref<bool(StringRef name)> hasValue);

} // namespace mlir::binade

#endif // BINADE_LIB_EXPORT_STABLEEMBEDDING_H
