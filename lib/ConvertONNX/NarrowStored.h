//===- NarrowStored.h - Stored tensors that are moved first -----*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_NARROWSTORED_H
#define BINADE_LIB_CONVERTONNX_NARROWSTORED_H

#include "Formats.h"

namespace mlir::binade::convert {

/// Moves what `graph`, or one inside of it, stores in the format in which all
/// readers want the result: it is the same, and the tensor can be stored in
/// that format. Weights of a linear layer are transposed before their product.
/// `outside` has to keep its types.
void narrowStoredMoves(PlannedGraph &graph, const llvm::StringSet<> &outside);

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_NARROWSTORED_H
